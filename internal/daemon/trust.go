package daemon

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/session"
)

// postTrust lets a project's own file count for the sessions of the asker's user.
func (d *Daemon) postTrust(_ http.ResponseWriter, r *http.Request, c caller) (any, error) {
	var req api.TrustRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if err := session.CheckPath("project", req.Dir); err != nil {
		return nil, err
	}
	own, err := d.ownerFor(c, req.RunAs)
	if err != nil {
		return nil, err
	}
	if _, err := d.store.MakeOwner(own.UID, own.GID); err != nil {
		return nil, err
	}
	w := session.Work{Path: req.Dir, Trust: d.store.TrustFile(own.UID)}
	w.Record.Home.Spelled = homeOf(c, own, req.Home)
	w.Record.UID, w.Record.GID, w.Record.Groups = own.UID, own.GID, own.Groups
	var t api.Trusted
	if own.UID == d.uid {
		t, err = session.Trust(w)
	} else {
		err = d.opt.Worker.Do(r.Context(), session.WorkTrust, w, &t)
	}
	if err != nil {
		return nil, err
	}
	d.log.Info("trusted", zap.Int("uid", c.UID), zap.String("file", t.File), zap.String("digest", t.Digest))
	return t, nil
}
