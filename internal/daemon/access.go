package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sort"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/peer"
	"github.com/sbxd/sbxd/session"
)

// caller is who asks: what the kernel says of the other end of the socket.
type caller struct {
	peer.Peer
	socket string
}

type peerKey struct{}

// withPeer notes who connected, for every request of the connection.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	p, err := peer.Of(conn)
	if err != nil {
		return ctx // nobody: refused by admit
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// admit tells who asks, or refuses: one that cannot be named, that lives in another
// user namespace (a sandbox shows its owner's uid), or that is neither this daemon's
// user nor root, unless this daemon is root's.
func (d *Daemon) admit(r *http.Request) (caller, error) {
	p, ok := r.Context().Value(peerKey{}).(peer.Peer)
	switch {
	case !ok:
		return caller{}, denied("who is asking cannot be found out")
	case !p.SameUserNS:
		return caller{}, denied("a process of another user namespace, such as a sandbox, may not ask; nor may one that cannot be looked at")
	case d.uid != 0 && p.UID != d.uid && p.UID != 0:
		return caller{}, denied(fmt.Sprintf("this daemon is uid %d's", d.uid))
	}
	return caller{Peer: p, socket: d.opt.Socket}, nil
}

func denied(why string) error {
	return &api.Error{Code: api.ExitDenied, Message: "not permitted: " + why}
}

// sees reports whether c may know of r: its own, or root all.
func (c caller) sees(r session.Record) bool { return c.UID == 0 || c.UID == r.UID }

// find returns the session that ref, an id or a name, means to c. A session that c may
// not see is not found, like one that is not there.
func (d *Daemon) find(c caller, ref string) (session.Record, error) {
	if id, err := session.ParseID(ref); err == nil {
		if r, ok := d.byID(id); ok && c.sees(r) {
			return r, nil
		}
		return session.Record{}, notFound(ref)
	}
	var hits []session.Record
	for _, r := range d.all() {
		if r.Name == ref && ref != "" && c.sees(r) {
			hits = append(hits, r)
		}
	}
	switch len(hits) {
	case 0:
		return session.Record{}, notFound(ref)
	case 1:
		return hits[0], nil
	}
	// Only root sees names of several users.
	return session.Record{}, &api.Error{
		Code: api.ExitUsage, Message: fmt.Sprintf("the name %.63q belongs to sessions of %d users", ref, len(hits)), Hint: "use the id",
	}
}

func notFound(ref string) error {
	return &api.Error{Code: api.ExitNotFound, Message: fmt.Sprintf("there is no session %.80q", ref), Hint: "sbxd list shows yours"}
}

// visible returns the sessions that c may see, oldest first.
func (d *Daemon) visible(c caller) []session.Record {
	var list []session.Record
	for _, r := range d.all() {
		if c.sees(r) {
			list = append(list, r)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		if !list[i].Created.Equal(list[j].Created) {
			return list[i].Created.Before(list[j].Created)
		}
		return list[i].ID < list[j].ID
	})
	return list
}
