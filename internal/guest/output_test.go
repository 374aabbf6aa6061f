package guest

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sbxd/sbxd/session"
)

func sha(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

func TestBigOutputOnBothChannels(t *testing.T) {
	b := boot(t)
	const n = 25 << 20
	s := b.sh(fmt.Sprintf(`head -c %d /dev/zero | tr '\0' a & head -c %d /dev/zero | tr '\0' b >&2; wait`, n, n)).check(0)
	for fd, c := range map[int]string{1: "a", 2: "b"} {
		if sha(s.text(fd)) != sha(strings.Repeat(c, n)) {
			t.Errorf("channel %d: %d bytes, want %d", fd, len(s.text(fd)), n)
		}
	}
}

func TestOutputWaitsForCredit(t *testing.T) {
	b := boot(t)
	s := b.start(session.Command{Argv: session.Words{"bash", "-c", "head -c 3000000 /dev/zero; echo end >&2; exit 3"}, Env: testEnv})
	s.mu.Lock()
	s.credit = false
	s.mu.Unlock()
	time.Sleep(300 * time.Millisecond)
	if n := len(s.text(1)); n > session.Window || n < session.Window/2 {
		t.Errorf("%d bytes without credit, the window is %d", n, session.Window)
	}
	select {
	case <-s.done:
		t.Error("ended before its output was taken")
	default:
	}
	b.sh("exit 6").check(6) // others go on
	s.mu.Lock()
	s.credit, s.held = true, session.Window
	s.pay()
	s.mu.Unlock()
	s.check(3)
	if len(s.text(1)) != 3_000_000 || s.text(2) != "end\n" {
		t.Errorf("%d bytes, %q", len(s.text(1)), s.text(2))
	}
}

func TestEndWithBackgroundJobs(t *testing.T) {
	b := boot(t)
	begin := time.Now()
	s := b.sh(`(trap '' PIPE; sleep 0.4; echo late; echo $? >/proc/self/cwd/tmp/late.$$; sleep 100) & (while :; do echo y; done) & echo first; exit 3`).check(3)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("the end took %v: a background job held it up", took)
	}
	if !strings.Contains(s.text(1), "first\n") {
		t.Errorf("output %.100q", s.text(1))
	}
	// A job that writes later neither dies of it nor shows up in another's output.
	s = b.sh(`(sleep 0.2; echo late; sleep 0.2; echo later; exec sleep 100) & echo $!`).check(0)
	pid := strings.TrimSpace(s.text(1))
	time.Sleep(600 * time.Millisecond)
	if got := b.sh("tr '\\0' ' ' </proc/" + pid + "/cmdline").check(0).text(1); got != "sleep 100 " {
		t.Errorf("the job is now %q", got)
	}
}

func TestAllOutputBeforeTheEnd(t *testing.T) {
	b := boot(t)
	for i := range 200 {
		s := b.sh(fmt.Sprintf("head -c %d /dev/zero; echo x >&2", 1+i*300)).check(0)
		if len(s.text(1)) != 1+i*300 || s.text(2) != "x\n" {
			t.Fatalf("%d bytes of %d, %q", len(s.text(1)), 1+i*300, s.text(2))
		}
	}
}
