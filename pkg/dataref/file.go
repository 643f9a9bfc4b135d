package dataref

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

type openRoot struct {
	Root
	root *os.Root
}

func openRoots(roots []Root) (open []openRoot, err error) {
	for _, r := range roots {
		if r.Folder, err = filepath.Abs(r.Folder); err != nil {
			return nil, err
		}
		root, err := os.OpenRoot(r.Folder)
		if err != nil {
			return nil, fmt.Errorf("folder of tenant %s: %w", r.Tenant, err)
		}
		open = append(open, openRoot{r, root})
	}
	return open, nil
}

// openFile opens the file that u names, by its full path, in a root of the tenant. No link and no .. leads out of the root,
// and nothing but a regular file is opened.
func (f *Fetcher) openFile(u *url.URL, tenant string) (source, error) {
	const name = "the file" // its path is not quoted
	if u.Host != "" || u.Opaque != "" || u.RawQuery != "" || u.User != nil || !path.IsAbs(u.Path) || slices.Contains(strings.Split(u.Path, "/"), "..") {
		return source{}, forbidden("a file is named as file:///folder/name, without ..")
	}
	for _, r := range f.roots {
		within, err := filepath.Rel(r.Folder, filepath.FromSlash(path.Clean(u.Path)))
		if err != nil || r.Tenant != tenant || !filepath.IsLocal(within) {
			continue
		}
		// Without waiting: a pipe would keep the partition until somebody writes to it.
		file, err := r.root.OpenFile(within, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return source{}, unavailable(name, "it is not there, or offerlog may not read it")
		case err != nil:
			return source{}, forbidden("the file does not lie in the tenant's folder")
		}
		info, err := file.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = forbidden("it is no regular file")
		}
		if err != nil {
			return source{}, errors.Join(err, file.Close())
		}
		return source{file, name, info.Size()}, nil
	}
	return source{}, forbidden("the file does not lie in a folder of tenant %s: have the installation's setting dataref-roots name one", tenant)
}

// openObject opens the object that u names, as s3://bucket/name, in a bucket of the tenant.
func (f *Fetcher) openObject(ctx context.Context, u *url.URL, tenant string) (source, error) {
	if u.Opaque != "" || u.RawQuery != "" || u.User != nil {
		return source{}, forbidden("an object is named as s3://bucket/name")
	}
	for _, b := range f.cfg.Buckets {
		name, ok := strings.CutPrefix("s3://"+u.Host+u.Path, strings.TrimRight(b.Location, "/")+"/")
		if !ok || b.Tenant != tenant || !fs.ValidPath(name) {
			continue
		}
		body, err := b.Objects.Get(ctx, name, 0)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return source{}, unavailable("bucket "+u.Host, "the object is not there")
		case err != nil:
			return source{}, f.unavailable(ctx, "bucket "+u.Host, err)
		}
		return source{body, "bucket " + u.Host, -1}, nil
	}
	return source{}, forbidden("the object does not lie in a bucket of tenant %s: have the installation's setting dataref-roots name one", tenant)
}
