package api

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// single carries each request on a connection of its own, which is all that a program needs
// that makes one or two, and all that a WebSocket can have: http.Transport starts three
// goroutines for a connection, and with them two threads, for which a short command would
// wait longer than for its answer.
type single struct{ client *Client }

// RoundTrip is as http.RoundTripper says. The answer's body ends the connection when it is
// closed; that of an upgrade is the connection, to be read and written.
func (s single) RoundTrip(req *http.Request) (*http.Response, error) {
	conn, err := s.client.connect(req.Context())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(req.Context(), func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	resp, r, err := ask(conn, req)
	if err != nil {
		stop()
		conn.Close()
		if cause := context.Cause(req.Context()); cause != nil {
			err = cause
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols && stop() {
		resp.Body = struct { // of which r may have read more than the answer
			io.Reader
			io.WriteCloser
		}{r, conn}
		return resp, nil
	}
	resp.Body = &body{resp.Body, conn, stop}
	return resp, nil
}

func ask(conn net.Conn, req *http.Request) (*http.Response, *bufio.Reader, error) {
	if err := req.Write(conn); err != nil {
		return nil, nil, err
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, req)
	return resp, r, err
}

// body is that of a connection's only answer.
type body struct {
	io.Reader
	conn net.Conn
	stop func() bool
}

func (b *body) Close() error {
	b.stop()
	return b.conn.Close()
}
