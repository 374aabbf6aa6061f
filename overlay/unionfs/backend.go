package unionfs

import (
	"os"
	"sync"

	"github.com/sbxd/sbxd/overlay"
)

// Backend mounts and serves in one process, for probing and for programs that do
// not use the view themselves: a process that maps a file of its own view, or
// starts a program there, can wait for itself.
type Backend struct {
	Options Options

	mu      sync.Mutex // guards the field below
	servers []*Server
}

var _ overlay.Backend = (*Backend)(nil)

// Name returns "unionfs".
func (*Backend) Name() string { return "unionfs" }

// Mount returns the view that s describes. Its server ends with the mount.
func (b *Backend) Mount(s overlay.Spec) (*os.File, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	dev, err := OpenDevice()
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	view, err := Mount(dev, MountOptions{Source: s.Source, AllowOther: true})
	if err != nil {
		return nil, err
	}
	server, err := Serve(dev, s, b.Options)
	if err != nil {
		_ = view.Close()
		return nil, &overlay.MountError{Op: "serve", Err: err}
	}
	if err := Settle(view); err != nil {
		_ = view.Close()
		return nil, &overlay.MountError{Op: "use", Err: err}
	}
	b.mu.Lock()
	b.servers = append(b.servers, server)
	b.mu.Unlock()
	return view, nil
}

// Wait returns when every view of this backend is gone.
func (b *Backend) Wait() {
	b.mu.Lock()
	servers := b.servers
	b.servers = nil
	b.mu.Unlock()
	for _, s := range servers {
		s.Wait()
	}
}
