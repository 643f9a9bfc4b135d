// Command requirements reads what `go test -json` wrote and answers two questions.
//
//	go test -json ./... | requirements summary -save build/test.json
//	requirements list -doc docs/requirements.md -results build/test.json
//
// summary is the suite as people read it: the output of what failed, one line for each skipped test and each package,
// and a last line that counts, the skips by reason. It exits 0 whatever the tests did, so that under pipefail the exit
// code is that of go test.
//
// list shows each requirement of the document with the tests that name it and how they ended. It exits 1 if one of
// these failed, or names a requirement that the document does not have.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// errNotMet reports that list has shown something that is wrong; the list itself says what.
var errNotMet = errors.New("requirements not met")

func main() {
	err := run(os.Args[1:], os.Stdin, os.Stdout)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errNotMet):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "requirements:", err)
		os.Exit(2)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("say which: summary or list")
	}
	flags := flag.NewFlagSet("requirements "+args[0], flag.ContinueOnError)
	switch args[0] {
	case "summary":
		save := flags.String("save", "", "also keep the stream in this `file`")
		if err := parse(flags, args[1:]); err != nil {
			return err
		}
		return saved(in, *save, func(in io.Reader) error { return summary(in, out) })
	case "list":
		doc := flags.String("doc", "docs/requirements.md", "the `file` with the requirements")
		results := flags.String("results", "build/test.json", "the `file` that summary kept")
		if err := parse(flags, args[1:]); err != nil {
			return err
		}
		return listFiles(*doc, *results, out)
	default:
		return fmt.Errorf("%q is neither summary nor list", args[0])
	}
}

func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return nil
}

// saved gives in to read and keeps a copy of it under name. The file appears when the stream has ended: a run that is
// interrupted leaves the results of the one before.
func saved(in io.Reader, name string, read func(io.Reader) error) (err error) {
	if name == "" {
		return read(in)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return fmt.Errorf("keep the results: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("keep the results: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	buffered := bufio.NewWriter(file)
	if err := read(io.TeeReader(in, buffered)); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := errors.Join(buffered.Flush(), file.Close()); err != nil {
		return fmt.Errorf("keep the results: %w", err)
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return fmt.Errorf("keep the results: %w", err)
	}
	return nil
}

func listFiles(doc, results string, out io.Writer) error {
	d, err := os.ReadFile(doc)
	if err != nil {
		return fmt.Errorf("read the requirements: %w", err)
	}
	r, err := os.ReadFile(results)
	if err != nil {
		return fmt.Errorf("read the results, which make test writes: %w", err)
	}
	return list(bytes.NewReader(d), bytes.NewReader(r), out)
}
