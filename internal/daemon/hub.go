package daemon

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/sbxd/sbxd/api"
)

// hub passes changes of state to those who listen. A listener that is too slow is cut
// off: it sees the end of its stream, and asks for the list again.
type hub struct {
	mu        sync.Mutex // guards the field below
	listeners map[*listening]bool
}

type listening struct {
	caller caller
	events chan api.StateEvent
}

// backlog is how many events may wait for one listener: every session of a busy host
// changing once.
const backlog = 1024

func (h *hub) listen(c caller) *listening {
	l := &listening{caller: c, events: make(chan api.StateEvent, backlog)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners == nil {
		h.listeners = map[*listening]bool{}
	}
	h.listeners[l] = true
	return l
}

func (h *hub) leave(l *listening) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(l)
}

func (h *hub) drop(l *listening) {
	if h.listeners[l] {
		delete(h.listeners, l)
		close(l.events)
	}
}

// tell passes e, of a session of uid, to all who may see it.
func (h *hub) tell(uid int, e api.StateEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if l.caller.UID != 0 && l.caller.UID != uid {
			continue
		}
		select {
		case l.events <- e:
		default:
			h.drop(l)
		}
	}
}

func (d *Daemon) getEvents(w http.ResponseWriter, r *http.Request, c caller) (any, error) {
	l := d.hub.listen(c)
	defer d.hub.leave(l)
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	enc := json.NewEncoder(w)
	for {
		if err := out.Flush(); err != nil {
			return streamed, nil
		}
		select {
		case <-r.Context().Done():
			return streamed, nil
		case <-d.run.Done():
			return streamed, nil
		case e, ok := <-l.events:
			if !ok || enc.Encode(e) != nil {
				return streamed, nil
			}
		}
	}
}
