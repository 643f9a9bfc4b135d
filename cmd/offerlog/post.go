package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/token"
	"github.com/offerlog/offerlog/streams/gateway"
)

// publishByGateway posts each file, prints where it stands, and with --wait what became of it.
func (a *app) publishByGateway(ctx context.Context, p publication, files []file) error {
	to, err := newPoster(p)
	if err != nil {
		return err
	}
	var (
		done     []published
		attempts []receipt.Document
	)
	for n := range files {
		payload, e := readPayload(files[n].path)
		if e != nil {
			err = usage("check the file; what was published before it stays so", "%w", e)
			break
		}
		taken, attempt, e := to.post(ctx, pageOf(p.id, n, len(files), files[n].name, payload))
		if e != nil {
			err = e
			break
		}
		if attempt != nil {
			attempts = append(attempts, *attempt)
			continue
		}
		done = append(done, published{ID: taken.ID, Topic: taken.Topic, Partition: taken.Partition, Offset: taken.Offset})
	}
	if len(attempts) > 0 {
		if e := a.showAttempts(attempts); err == nil {
			err = e
		}
	}
	if len(done) > 0 || !p.wait {
		if e := a.showPublished(done); err == nil {
			err = e
		}
	}
	switch {
	case err != nil:
		return err
	case p.wait && len(done) > 0:
		return &exitError{exitFailed, "timeout", "publish the same again to see its outcome: it does no harm",
			fmt.Errorf("%d of %d events are taken and had no outcome within %s", len(done), len(files), p.timeout)}
	}
	return verdict(attempts)
}

// A poster sends pages to a gateway, as whoever the token speaks for.
type poster struct {
	client  *http.Client
	address string
	secret  token.Token
	p       publication
}

// postTimeout bounds one request: what the gateway takes at the most.
const postTimeout = 3 * time.Minute

func newPoster(p publication) (*poster, error) {
	u, err := url.Parse(p.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usage("write http://127.0.0.1:8081, for example", "--url is no address of a gateway")
	}
	text, err := os.ReadFile(p.tokenFile)
	if err != nil {
		return nil, usage("check --token-file", "%w", err)
	}
	secret, err := token.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, usage("make one with: offerlog token create --role publisher --name NAME >"+p.tokenFile, "--token-file %s: %w", p.tokenFile, err)
	}
	client := &http.Client{Timeout: postTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // nobody else gets the token
	return &poster{client, u.JoinPath(gateway.Path).String() + "?" + url.Values{"feed": {p.feed}}.Encode(), secret, p}, nil
}

// post sends a page until it is taken or refused, and returns where it stands, or its outcome where that is waited for. What the
// gateway has no room for is sent again when it says so, until the time is up.
func (to *poster) post(ctx context.Context, pg page) (gateway.Taken, *receipt.Document, error) {
	for end := time.Now().Add(to.p.timeout); ; {
		taken, attempt, again, err := to.try(ctx, pg)
		if err != nil || again == 0 {
			return taken, attempt, err
		}
		if time.Now().Add(again).After(end) {
			return taken, nil, &exitError{exitFailed, "timeout", "publish the same again later: it does no harm",
				fmt.Errorf("publish %s: the gateway could not take it within %s", pg.id, to.p.timeout)}
		}
		select {
		case <-ctx.Done():
			return taken, nil, ctx.Err()
		case <-time.After(again):
		}
	}
}

// maxAgain bounds how long a gateway can make its clients wait.
const maxAgain = time.Minute

// try sends a page once; again is when to do so again.
func (to *poster) try(ctx context.Context, pg page) (taken gateway.Taken, attempt *receipt.Document, again time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.address, bytes.NewReader(pg.payload))
	if err != nil {
		return taken, nil, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+to.secret.Reveal())
	req.Header.Set("Ce-Id", url.PathEscape(pg.id))
	if to.p.at != "" {
		req.Header.Set("Ce-Time", to.p.at)
	}
	if pg.run != "" {
		req.Header.Set("Ce-Runid", url.PathEscape(pg.run))
		req.Header.Set("Ce-Page", strconv.Itoa(pg.number))
		req.Header.Set("Ce-Pages", strconv.Itoa(pg.of))
	}
	if to.p.wait {
		req.Header.Set("Prefer", "wait="+strconv.Itoa(max(1, int(to.p.timeout.Seconds()))))
	}
	resp, err := to.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return taken, nil, 0, ctx.Err()
		}
		return taken, nil, 0, &exitError{exitFailed, "gateway_unreachable", "check --url, and publish the same again: it does no harm", fmt.Errorf("publish: %w", err)}
	}
	defer resp.Body.Close()
	const limit = 64 << 20 // a receipt names each observation
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err != nil {
		return taken, nil, 0, fmt.Errorf("publish: read the answer: %w", err)
	}
	var problem gateway.Problem
	switch resp.StatusCode {
	case http.StatusAccepted:
		err = json.Unmarshal(body, &taken)
	case http.StatusOK:
		attempt = &receipt.Document{}
		err = json.Unmarshal(body, attempt)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		seconds, e := strconv.Atoi(resp.Header.Get("Retry-After"))
		again = min(max(time.Duration(seconds)*time.Second, time.Second), maxAgain)
		if e != nil {
			err = errors.New("no Retry-After")
		}
	default:
		if err = json.Unmarshal(body, &problem); err != nil {
			break
		}
		if problem.Receipt != nil {
			return taken, problem.Receipt, 0, nil
		}
		return taken, nil, 0, &exitError{exitOf(problem.Status), problem.Code, "see " + problem.Code + " in docs/reasons.md; what was published before stays so",
			fmt.Errorf("publish %s: %s %s", pg.id, problem.Title, problem.Detail)}
	}
	if err != nil {
		return taken, nil, 0, &exitError{exitFailed, "no_gateway", "check --url", fmt.Errorf("publish: the answer, %s, is none of a gateway", resp.Status)}
	}
	return taken, attempt, again, nil
}

// exitOf is the exit code for the status of a problem.
func exitOf(status int) int {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitNotAllowed
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusConflict:
		return exitConflict
	}
	return exitFailed
}
