package main

import (
	"os"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/config"
	"github.com/sbxd/sbxd/session"
)

// client returns a client of the daemon that the caller means: --socket, SBXD_SOCKET,
// the configuration's, the user's own, the system's; the first that is named, or else
// the first that answers.
func (a *app) client() (*api.Client, error) {
	sockets, err := a.sockets()
	if err != nil {
		return nil, err
	}
	return api.DialOnce(sockets)
}

func (a *app) sockets() ([]string, error) {
	if a.socket != "" {
		path, err := absolute(a.socket)
		return []string{path}, err
	}
	if s := a.getenv("SBXD_SOCKET"); s != "" {
		return []string{s}, nil
	}
	cfg, err := a.load()
	if err != nil {
		return nil, faults(a, err)
	}
	if cfg.Socket != "" {
		return []string{cfg.Socket}, nil
	}
	return api.Sockets(os.Getuid(), a.getenv, stateRoot(cfg)), nil
}

// stateRoot is where the caller's own daemon keeps its state.
func stateRoot(cfg config.Config) string {
	if cfg.State != "" {
		return cfg.State
	}
	return session.DefaultRoot(os.Getuid())
}
