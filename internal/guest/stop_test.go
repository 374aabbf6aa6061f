package guest

import (
	"strings"
	"testing"
	"time"
)

func TestZombiesAreReaped(t *testing.T) {
	b := boot(t)
	b.sh(`for i in $(seq 50); do (setsid sh -c 'sh -c "exit 3" & exec sleep 0.2' &) ; done; (sh -c 'sh -c "exit 3" & exec sleep 0.1')`).check(0)
	time.Sleep(500 * time.Millisecond)
	if got := strings.TrimSpace(b.sh(`ps -eo stat | grep -c Z`).wait0().text(1)); got != "0" {
		t.Errorf("%s zombies", got)
	}
}

func (s *shell) wait0() *shell { s.wait(); return s }

func TestStopEndsEverything(t *testing.T) {
	b := boot(t)
	b.sh(`for i in 1 2 3; do setsid nohup bash -c 'trap "" TERM HUP; exec -a accdaemon sleep 999' >/dev/null 2>&1 & done
		(setsid sh -c 'sleep 999 &' &); bash -c 'kill -STOP $$' & sleep 0.1`).check(0)
	waiting := b.sh("sleep 999")
	b.sh("sleep 0.1").check(0)
	took := b.stop(300 * time.Millisecond)
	if took > 3*time.Second {
		t.Errorf("stop took %v", took)
	}
	waiting.check(128 + 15)
}

func TestStopIsQuickWhenAllObey(t *testing.T) {
	b := boot(t)
	s := b.sh(`trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done`)
	s.until("up")
	if took := b.stop(8 * time.Second); took > 2*time.Second {
		t.Errorf("stop took %v", took)
	}
	s.check(7)
	if !strings.Contains(s.text(1), "bye") {
		t.Errorf("the last words are missing: %q", s.text(1))
	}
	if b.exit != nil {
		t.Errorf("the guest ended with %v", b.exit)
	}
}

func TestNothingStartsWhileStopping(t *testing.T) {
	b := boot(t)
	s := b.sh(`trap '' TERM; echo up; while :; do sleep 0.01; done`)
	s.until("up")
	go b.stop(time.Second)
	time.Sleep(100 * time.Millisecond)
	late := b.sh("true")
	if end := late.wait(); end.Code != 125 || !strings.Contains(end.Message, "stopping") {
		t.Errorf("a command during the stop: %+v", end)
	}
	s.check(128 + 9)
	<-b.over
}

func TestStopOfAStoppedGuestWithHeldOutput(t *testing.T) {
	b := boot(t)
	s := b.sh("exec cat /dev/zero")
	s.mu.Lock()
	s.credit = false
	s.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	if took := b.stop(100 * time.Millisecond); took > 5*time.Second {
		t.Errorf("stop took %v", took)
	}
}
