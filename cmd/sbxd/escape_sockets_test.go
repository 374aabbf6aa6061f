package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/testbox"
)

// tryConnect connects to each of its arguments, such as tcp:127.0.0.1:22. A socket that
// is reached answers with the secret.
func tryConnect(r results, args []string) error {
	const patience = 3 * time.Second
	for _, to := range args {
		network, addr, _ := strings.Cut(to, ":")
		c, err := net.DialTimeout(network, addr, patience)
		if err == nil {
			_ = c.SetDeadline(time.Now().Add(patience))
			if network == "udp" {
				_, err = c.Write([]byte("x"))
			}
			b := make([]byte, len(secret))
			if n, rerr := c.Read(b); err == nil && rerr == nil && string(b[:n]) == secret {
				r[to] = secret
				c.Close()
				continue
			}
			c.Close()
		}
		r.note(to, err)
	}
	return nil
}

// listen answers every connection of the host's with the secret.
func listen(t *testing.T, network, addr string) string {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if network == "unix" && !strings.HasPrefix(addr, "@") {
		if err := os.Chmod(addr, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(secret))
			c.Close()
		}
	}()
	return network + ":" + l.Addr().String()
}

// TestEscapeBySockets listens on the host wherever a program of the user's would, and
// connects from inside.
func TestEscapeBySockets(t *testing.T) {
	t.Parallel()
	needLayers(t)
	b := served(t)
	w := filepath.Join(b.dir, "w")
	b.plant(t, map[string]string{"app/.git/": "", ".docker/": "", ".colima/": "", "run/": "", w + "/agent/": "", w + "/in/": "", ".gnupg/": ""})
	var paths, others []string
	for _, p := range []string{
		b.home + "/.colima/docker.sock", b.home + "/.docker/docker.sock", b.home + "/run/docker.sock", b.home + "/.gnupg/S.gpg-agent",
		b.project + "/.git/fsmonitor--daemon.ipc", w + "/agent/ssh-agent.1", w + "/in/bus",
	} {
		paths = append(paths, listen(t, "unix", p))
	}
	abstract := listen(t, "unix", fmt.Sprintf("@sbxd-test-%d", os.Getpid()))
	tcp := listen(t, "tcp", "127.0.0.1:0")
	others = append(others, abstract, tcp)
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		l.Close()
		others = append(others, listen(t, "tcp6", "[::1]:0"))
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			others = append(others, listen(t, "tcp", net.JoinHostPort(n.IP.String(), "0")))
		}
	}
	// From the host each of them answers.
	here := results{}
	if err := tryConnect(here, append(paths, others...)); err != nil {
		t.Fatal(err)
	}
	for _, to := range append(paths, others...) {
		if here[to] != secret {
			t.Fatalf("the host cannot reach %s: %s", to, here[to])
		}
	}
	const no = "ECONNREFUSED|EACCES|ENOENT|EPERM|ENETUNREACH|EADDRNOTAVAIL|EHOSTUNREACH|ENOTDIR"
	raw := []string{
		"tcp:169.254.169.254:80", "tcp:1.1.1.1:443", "udp:1.1.1.1:53", "tcp:10.0.0.1:80", "tcp:192.168.0.1:80", "tcp6:[2606:4700::1111]:443",
		"unix:/run/docker.sock", "unix:/var/run/docker.sock", fmt.Sprintf("unix:/run/user/%d/bus", b.uid), "unix:/run/dbus/system_bus_socket",
		"unix:/tmp/.X11-unix/X0", "unix:@/tmp/.X11-unix/X0", "unix:@/tmp/dbus-test", "unix:/run/systemd/notify", "unix:/nix/var/nix/daemon-socket/socket",
	}

	t.Run("without a network", func(t *testing.T) {
		i := b.intrude(t)
		want := map[string]string{}
		all := append(append(append([]string{}, paths...), others...), raw...)
		for _, to := range all {
			want[to] = no
		}
		expect(t, i.try("connect", all...), want)
		i.refuses("getent hosts example.org")
		i.refuses("ip link set lo down || ip link add x type dummy")
		// Its own loopback works, and is nobody else's.
		i.sh("test -d /sys/class/net || grep -q lo: /proc/net/dev")
	})

	t.Run("by an input", func(t *testing.T) {
		i := b.intrude(t, "--ro", w+"/in", "--ro", w+"/agent")
		i.sh(`test -S "$1"`, w+"/in/bus")
		expect(t, i.try("connect", paths...), map[string]string{"unix:" + w + "/in/bus": no, "unix:" + w + "/agent/ssh-agent.1": no})
		b.refused(t, 7, "socket", "start", "--project", b.project, "--ro", w+"/in/bus")
	})

	t.Run("with an open network", func(t *testing.T) {
		b.refused(t, 11, "allow_open", "start", "--project", b.project, "--network", "open")
		config := filepath.Join(b.dir, "config.toml")
		if err := os.WriteFile(config, []byte("[network]\nallow_open = true\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		testbox.Need(t, "landlock")
		i := b.intrude(t, "--network", "open")
		want := map[string]string{abstract: "EPERM"}
		for _, to := range append(paths, "unix:/run/docker.sock", "unix:/run/dbus/system_bus_socket", "unix:@/tmp/.X11-unix/X0") {
			want[to] = no
		}
		want[tcp] = secret // that is what open means, and why the admin has to allow it
		expect(t, i.try("connect", append(paths, abstract, tcp, "unix:/run/docker.sock", "unix:/run/dbus/system_bus_socket", "unix:@/tmp/.X11-unix/X0")...), want)
	})

	t.Run("no open network without scopes", func(t *testing.T) {
		if !tagged("sbxdtest") {
			t.Skip("needs a test binary with the tag sbxdtest")
		}
		b.without(t, "landlock").refused(t, 7, "open Landlock", "start", "--project", b.project, "--network", "open")
	})

	t.Run("no filtered network yet", func(t *testing.T) {
		b.refused(t, 7, "filtered", "start", "--project", b.project, "--network", "filtered")
		b.refused(t, 2, "network", "start", "--project", b.project, "--network", "host")
	})
}
