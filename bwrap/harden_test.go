package bwrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
)

// quota uses up the keys of this uid and then asks for a keyring.
func quota(res results, args []string) error {
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil {
		return err
	}
	ring := unix.KEY_SPEC_PROCESS_KEYRING
	if args[0] == "in the session" {
		ring = unix.KEY_SPEC_SESSION_KEYRING
	}
	const enough = 100_000
	for i := range enough {
		_, err := unix.AddKey("user", fmt.Sprint("sbxd-test-", i), []byte("x"), ring)
		if errors.Is(err, unix.EDQUOT) {
			res.add("keyring", newKeyring())
			return nil
		}
		if err != nil {
			return err
		}
	}
	res["keyring"] = "no quota"
	return nil
}

func TestKeyQuota(t *testing.T) {
	testbox.Need(t, "root") // to have uids whose keys nobody else needs, nor an earlier run
	uid := uint32(1_000_000 + 2*os.Getpid())
	for place, want := range map[string]string{"in the process": "ok", "in the session": "kernel.keys.maxkeys"} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "stage", "quota", place)
		uid++
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Skipf("needs keyrings: %v", err)
		}
		res := results{}
		if err := json.Unmarshal(out, &res); err != nil {
			t.Fatal(err)
		}
		if got := res["keyring"]; !strings.Contains(got, want) {
			t.Errorf("keys %s used up: %q, want %q", place, got, want)
		}
	}
}

func hardenTwice(res results, _ []string) error {
	res.add("first", Harden())
	res.add("second", Harden())
	sid, _ := unix.Getsid(0)
	res["leader"] = fmt.Sprint(sid == os.Getpid())
	var core unix.Rlimit
	res.add("core", unix.Getrlimit(unix.RLIMIT_CORE, &core))
	res["core max"] = fmt.Sprint(core.Max)
	return nil
}

func TestHardenTwiceDoesNoHarm(t *testing.T) {
	out, err := testbox.UserCommand(t, "/proc/self/exe", "stage", "harden").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	res := results{}
	if err := json.Unmarshal(out, &res); err != nil {
		t.Fatal(err)
	}
	expect(t, res, map[string]string{"first": "ok", "second": "ok", "leader": "true", "core max": "0"})
}

func TestExecRefusesDescriptors(t *testing.T) {
	for _, fd := range []int{0, 2, -1, ArgsFD, SeccompFD, 9999} {
		if err := Exec("/nonexistent", Arguments{Argv: []string{"/x"}}, fd); err == nil || !strings.Contains(err.Error(), fmt.Sprint(fd)) {
			t.Errorf("Exec that keeps %d: %v, want a refusal", fd, err)
		}
	}
}
