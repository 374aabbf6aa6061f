package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Client talks to one daemon. Its methods are safe for concurrent use. Every error
// that the daemon gave, and every failure to reach it, is an *Error.
type Client struct {
	socket string
	http   *http.Client
	made   chan fresh // ahead of their requests
}

// fresh is a connection that has carried nothing yet.
type fresh struct {
	net.Conn
	since time.Time
}

// freshness is less than any server waits for the first request of a connection.
const freshness = time.Second

// host fills the part of a URL that a unix socket has no use for.
const host = "http://sbxd"

// Dial returns a client of the daemon behind socket, after one connection that shows
// that it is there and belongs to the caller or to root. ExitNoDaemon: nobody listens.
func Dial(socket string) (*Client, error) {
	c := New(socket)
	if err := c.dial(); err != nil {
		return nil, err
	}
	return c, nil
}

// New returns a client without a first connection.
func New(socket string) *Client {
	c := &Client{socket: socket, made: make(chan fresh, 1)}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return c.connect(ctx) },
		DisableCompression: true,
	}}
	return c
}

// DialOnce is Dial for a program that makes a request or two and ends, with the first of
// the sockets that a daemon answers on: no connection is kept for a later request.
func DialOnce(sockets []string) (*Client, error) {
	first := error(&Error{Code: ExitNoDaemon, Message: "no socket to look for a daemon on"})
	for i, socket := range sockets {
		c := &Client{socket: socket, made: make(chan fresh, 1)}
		c.http = &http.Client{Transport: single{c}}
		err := c.dial()
		if err == nil {
			return c, nil
		}
		if i == 0 {
			first = err
		}
	}
	return nil, first
}

func (c *Client) dial() error {
	conn, err := dialChecked(context.Background(), c.socket)
	if err != nil {
		return c.noDaemon(err)
	}
	c.made <- fresh{conn, time.Now()}
	return nil
}

// Ahead gets ready for an Exec after a Start that is made next, while that is under way:
// a connection, and what package json wants to know of types.
func (c *Client) Ahead(ctx context.Context) {
	go func() {
		_ = json.Unmarshal([]byte("{}"), new(Session))
		_ = json.Unmarshal([]byte("{}"), new(Event))
		_, _ = json.Marshal(ExecRequest{})
		conn, err := dialChecked(ctx, c.socket)
		if err != nil {
			return // who needs it will hear why
		}
		select {
		case c.made <- fresh{conn, time.Now()}: // when the next one has taken its own
		case <-ctx.Done():
			conn.Close()
		}
	}()
}

// connect takes a connection that is there already, or makes one.
func (c *Client) connect(ctx context.Context) (net.Conn, error) {
	select {
	case f := <-c.made:
		if time.Since(f.since) < freshness {
			return f.Conn, nil
		}
		f.Close()
	default:
	}
	return dialChecked(ctx, c.socket)
}

// Close drops idle connections.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	select {
	case f := <-c.made:
		f.Close()
	default:
	}
}

// Socket returns the path of the daemon's socket.
func (c *Client) Socket() string { return c.socket }

// Version describes the daemon.
func (c *Client) Version(ctx context.Context) (v VersionInfo, err error) {
	return v, c.do(ctx, http.MethodGet, "/version", nil, nil, &v)
}

// Start starts a session and returns when commands can be run in it.
func (c *Client) Start(ctx context.Context, r StartRequest) (s Session, err error) {
	paths := slices.Concat([]string{r.Project, r.Home}, r.Masks, r.Carves, r.FinalMasks, r.ReadOnly)
	if bad := notText(paths); bad != "" {
		return s, &Error{
			Code: ExitRefused, Message: fmt.Sprintf("path %q is not UTF-8", bad),
			Hint: "rename it, or reach it by a path that is",
		}
	}
	return s, c.do(ctx, http.MethodPost, "/sessions", nil, r, &s)
}

// notText returns the first path that JSON would change under way, or "".
func notText(paths []string) string {
	for _, p := range paths {
		if !utf8.ValidString(p) {
			return p
		}
	}
	return ""
}

// List returns the sessions that the caller may see, oldest first.
func (c *Client) List(ctx context.Context) (s []Session, err error) {
	return s, c.do(ctx, http.MethodGet, "/sessions", nil, nil, &s)
}

// Session returns one session by id or name, with the number of unlanded entries.
func (c *Client) Session(ctx context.Context, id string) (s Session, err error) {
	return s, c.do(ctx, http.MethodGet, session(id), nil, nil, &s)
}

// Stop ends every process of a session; its work is kept.
func (c *Client) Stop(ctx context.Context, id string) (s Session, err error) {
	return s, c.do(ctx, http.MethodPost, session(id, "stop"), nil, nil, &s)
}

// Resume starts a stopped session again, with its work and today's policy.
func (c *Client) Resume(ctx context.Context, id string) (s Session, err error) {
	return s, c.do(ctx, http.MethodPost, session(id, "resume"), nil, nil, &s)
}

// Remove stops a session and removes it. Unlanded work needs Discard (ExitGate).
func (c *Client) Remove(ctx context.Context, id string, r RemoveRequest) error {
	q := url.Values{}
	if r.Discard {
		q.Set("discard", "true")
	}
	return c.do(ctx, http.MethodDelete, session(id), q, nil, nil)
}

// Commands returns the commands of a session that its shim still knows, oldest first.
func (c *Client) Commands(ctx context.Context, id string) (l []Command, err error) {
	return l, c.do(ctx, http.MethodGet, session(id, "execs"), nil, nil, &l)
}

// Log streams what a command wrote, both channels as they came, from the given number
// of bytes on; with follow until the command ends. The caller closes it.
func (c *Client) Log(ctx context.Context, id, exec string, from int64, follow bool) (io.ReadCloser, error) {
	q := url.Values{}
	if follow {
		q.Set("follow", "true")
	}
	if from > 0 {
		q.Set("from", strconv.FormatInt(from, 10))
	}
	resp, err := c.send(ctx, http.MethodGet, session(id, "log", exec), q, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// DiffOptions choose what Diff returns.
type DiffOptions struct {
	Home bool // HOME's view instead of the project's
	Text bool // with a unified diff
}

// Diff returns what a session changed.
func (c *Client) Diff(ctx context.Context, id string, o DiffOptions) (d Diff, err error) {
	q := url.Values{}
	if o.Home {
		q.Set("home", "true")
	}
	if o.Text {
		q.Set("text", "true")
	}
	return d, c.do(ctx, http.MethodGet, session(id, "diff"), q, nil, &d)
}

// Land lands a session's changeset. An error of code ExitConflict, ExitGate or
// ExitDrift comes with the landing that was planned.
func (c *Client) Land(ctx context.Context, id string, r LandRequest) (l Landing, err error) {
	return l, c.do(ctx, http.MethodPost, session(id, "land"), nil, r, &l)
}

// Lands returns the caller's landings, newest first.
func (c *Client) Lands(ctx context.Context) (l []Landing, err error) {
	return l, c.do(ctx, http.MethodGet, "/lands", nil, nil, &l)
}

// Undo takes a landing back.
func (c *Client) Undo(ctx context.Context, landing string, r UndoRequest) (l Landing, err error) {
	return l, c.do(ctx, http.MethodPost, "/lands/"+url.PathEscape(landing)+"/undo", nil, r, &l)
}

// Explain tells what a session makes of an absolute path.
func (c *Client) Explain(ctx context.Context, id, path string) (e Explanation, err error) {
	q := url.Values{"path": {path}}
	return e, c.do(ctx, http.MethodGet, session(id, "explain"), q, nil, &e)
}

// Sweep removes what dead sessions left.
func (c *Client) Sweep(ctx context.Context, r SweepRequest) (s Sweep, err error) {
	return s, c.do(ctx, http.MethodPost, "/sweep", nil, r, &s)
}

// Events calls f for every change of state from now on, until ctx ends or f fails.
func (c *Client) Events(ctx context.Context, f func(StateEvent) error) error {
	resp, err := c.send(ctx, http.MethodGet, "/events", nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(resp.Body)
	for {
		var e StateEvent
		if err := dec.Decode(&e); err != nil {
			return context.Cause(ctx)
		}
		if err := f(e); err != nil {
			return err
		}
	}
}

func session(id string, rest ...string) string {
	p := "/sessions/" + url.PathEscape(id)
	for _, r := range rest {
		p += "/" + url.PathEscape(r)
	}
	return p
}
