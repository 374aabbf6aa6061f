package daemon

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/peer"
	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/session"
)

// askAs makes one request with curl's shape from a process with other ids or in other
// namespaces, and returns the answer's head and body.
func (b *box) askAs(attr *syscall.SysProcAttr, request string) string {
	b.t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{stageEnv + "=ask", "SBXD_SOCKET=" + b.opt.Socket, "SBXD_REQUEST=" + request}
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("asking: %v: %s", err, out)
	}
	return string(out)
}

const list = "GET /v1/sessions HTTP/1.0\r\n\r\n"

func TestAnotherUserNamespaceIsRefused(t *testing.T) {
	testbox.Need(t, "userns")
	b := newBox(t)
	b.start()
	b.session()
	id := os.Geteuid()
	attr := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER, // what a sandbox does; it shows our own uid
		UidMappings: []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
	}
	if got := b.askAs(attr, list); !strings.Contains(got, " 403 ") || strings.Contains(got, "project") {
		t.Errorf("from another user namespace: %s", got)
	}
	if got := b.askAs(nil, list); !strings.Contains(got, " 200 ") {
		t.Errorf("from ours: %s", got)
	}
}

func TestAnotherUsersSessionIsNotFound(t *testing.T) {
	testbox.Need(t, "root")
	b := newBox(t)
	b.start()
	s := b.session(func(r *api.StartRequest) { r.Name = "mine" })
	// The socket is root's alone; a later access table may open it, so what counts is
	// what the daemon says then.
	must(t, os.Chmod(b.opt.Socket, 0o666))
	must(t, os.Chmod(b.opt.RuntimeDir, 0o711))
	for uid, want := range map[uint32]string{12345: " 200 ", 12346: " 404 "} {
		attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		for _, ref := range []string{s.ID, "mine"} {
			for _, rest := range []string{"", "/execs", "/explain?path=/x"} {
				got := b.askAs(attr, "GET /v1/sessions/"+ref+rest+" HTTP/1.0\r\n\r\n")
				if !strings.Contains(got, want) {
					t.Errorf("uid %d, %s%s: %s", uid, ref, rest, got)
				}
			}
		}
		if got := b.askAs(attr, list); strings.Contains(got, s.ID) != (uid == 12345) {
			t.Errorf("uid %d lists %s", uid, got)
		}
	}
	other := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12346, Gid: 12346}}
	for _, method := range []string{"stop", "resume", "exec", "land"} {
		got := b.askAs(other, "POST /v1/sessions/"+s.ID+"/"+method+" HTTP/1.0\r\n\r\n")
		if !strings.Contains(got, " 404 ") {
			t.Errorf("%s of another's session: %s", method, got)
		}
	}
	none := b.askAs(other, "GET /v1/sessions/abcdefghijkl HTTP/1.0\r\n\r\n")
	theirs := b.askAs(other, "GET /v1/sessions/"+s.ID+" HTTP/1.0\r\n\r\n")
	_, none, _ = strings.Cut(none, "\r\n\r\n")
	_, theirs, _ = strings.Cut(theirs, "\r\n\r\n")
	if none != strings.Replace(theirs, s.ID, "abcdefghijkl", 1) {
		t.Errorf("another's session and none can be told apart:\n%s\n%s", none, theirs)
	}
	if st, err := b.Session(t.Context(), s.ID); err != nil || st.State != "running" {
		t.Errorf("after all that: %+v, %v", st, err)
	}
	_, err := b.Start(t.Context(), api.StartRequest{Project: b.project, Home: b.home, RunAs: "12346"})
	wantCode(t, "a HOME that is not the user's", err, api.ExitRefused)
}

func TestOwnerFor(t *testing.T) {
	root, user := caller{Peer: peer.Peer{UID: 0}}, caller{Peer: peer.Peer{UID: 12345, GID: 12345}}
	system := &Daemon{uid: 0}
	for name, c := range map[string]struct {
		d     *Daemon
		c     caller
		runAs string
		uid   int
		code  int
	}{
		"root names nobody":        {system, root, "", 0, api.ExitRefused},
		"root names itself":        {system, root, "root", 0, api.ExitRefused},
		"root names uid 0":         {system, root, "0", 0, api.ExitRefused},
		"root names gid 0":         {system, root, "12345:0", 0, api.ExitRefused},
		"root names a uid":         {system, root, "12345", 12345, 0},
		"root names uid and gid":   {system, root, "12345:54321", 12345, 0},
		"root names nonsense":      {system, root, "-1", 0, api.ExitNotFound},
		"root names the invalid":   {system, root, "4294967295", 0, api.ExitNotFound},
		"a user":                   {system, user, "", 12345, 0},
		"a user names itself":      {system, user, "12345", 12345, 0},
		"a user names another":     {system, user, "12346", 0, api.ExitDenied},
		"a user names root":        {system, user, "root", 0, api.ExitDenied},
		"a user's daemon, another": {&Daemon{uid: 12345}, user, "12346", 0, api.ExitDenied},
		"a user's daemon, itself":  {&Daemon{uid: 12345}, user, "12345", 12345, 0},
	} {
		o, err := c.d.ownerFor(c.c, c.runAs)
		if c.code == 0 {
			if err != nil || o.UID != c.uid {
				t.Errorf("%s: %+v, %v", name, o, err)
			}
			continue
		}
		wantCode(t, name, err, c.code)
	}
}

func TestHomeOf(t *testing.T) {
	root, user := caller{Peer: peer.Peer{UID: 0}}, caller{Peer: peer.Peer{UID: 7}}
	seven := owner{Cred: session.Cred{UID: 7}, home: "/home/seven"}
	unknown := owner{Cred: session.Cred{UID: 7}}
	for _, c := range []struct {
		c     caller
		o     owner
		asked string
		want  string
	}{
		{user, seven, "/own", "/own"},
		{user, seven, "", "/home/seven"},
		{user, unknown, "/own", "/own"},
		{root, seven, "/root", "/home/seven"},
		{root, unknown, "/given", "/given"},
		{root, unknown, "", ""},
	} {
		if got := homeOf(c.c, c.o, c.asked); got != c.want {
			t.Errorf("uid %d asks %q for %+v: %q, want %q", c.c.UID, c.asked, c.o, got, c.want)
		}
	}
}
