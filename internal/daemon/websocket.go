package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/session"
)

// Bounds of a WebSocket.
const (
	maxClientFrame = maxBody          // the first frame holds argv and environment
	firstFrame     = 10 * time.Second // to say what is to be run
)

// getExec is the streaming form of exec. Once the WebSocket stands, errors travel in it.
func (d *Daemon) getExec(w http.ResponseWriter, r *http.Request, c caller, rec session.Record) (any, error) {
	if err := running(rec); err != nil {
		return nil, err
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return streamed, nil // it has answered
	}
	defer ws.CloseNow()
	ws.SetReadLimit(maxClientFrame)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(d.run, func() { cancel(errClosing) })
	defer stop()
	cl := &wsClient{ctx: ctx, ws: ws}
	if err := d.serveExec(ctx, c, rec, cl); err != nil && ctx.Err() == nil {
		e := session.APIError(err)
		_ = cl.event(api.Event{Type: "error", Code: &e.Code, Message: e.Error()})
	}
	if ctx.Err() == nil {
		_ = ws.Close(websocket.StatusNormalClosure, "")
	}
	return streamed, nil
}

func (d *Daemon) serveExec(ctx context.Context, c caller, rec session.Record, cl *wsClient) error {
	req, err := cl.first()
	if err != nil {
		return err
	}
	s, err := d.open(ctx, c, rec, req, cl)
	if err != nil {
		return err
	}
	defer s.close()
	// Ends the pump when the client goes away or the daemon ends.
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	go cl.receive(s)
	return s.pump(req.Detach)
}

// wsClient is the client at the other end of a WebSocket.
type wsClient struct {
	ctx context.Context
	ws  *websocket.Conn
	buf []byte
}

func (cl *wsClient) first() (req api.ExecRequest, err error) {
	ctx, cancel := context.WithTimeout(cl.ctx, firstFrame)
	defer cancel()
	kind, b, err := cl.ws.Read(ctx)
	if err != nil {
		return req, err
	}
	if kind != websocket.MessageText {
		return req, usage("the first frame has to be text: what is to be run")
	}
	if err := json.Unmarshal(b, &req); err != nil {
		return req, usage("the first frame: %v", err)
	}
	if req.Input != "" {
		return req, usage("input is for a plain POST; here stdin is sent in binary frames")
	}
	return req, nil
}

// receive carries the client's frames to the command until either end is gone. A client
// that is gone ends the stream; the command runs on.
func (cl *wsClient) receive(s *stream) {
	defer s.close()
	for {
		kind, b, err := cl.ws.Read(cl.ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			if len(b) == 0 || b[0] != api.ChannelStdin {
				continue
			}
			err = s.stdin(b[1:])
		} else {
			var e api.Event
			if err = json.Unmarshal(b, &e); err == nil {
				err = s.control(e)
			}
		}
		if err != nil {
			return
		}
	}
}

func (cl *wsClient) event(e api.Event) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return cl.ws.Write(cl.ctx, websocket.MessageText, b)
}

func (cl *wsClient) data(channel byte, _ int64, b []byte) error {
	cl.buf = append(append(cl.buf[:0], channel), b...)
	return cl.ws.Write(cl.ctx, websocket.MessageBinary, cl.buf)
}
