package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/sbxd/sbxd/internal/testbox"
	"github.com/sbxd/sbxd/session"
)

// The suite's own binary is also a daemon, a shim and a worker: real processes on real
// sockets. The shim runs commands without a sandbox; everything else of it is true to
// the protocol. (The product's own shim is tested in the tests of the whole.)
const stageEnv = "SBXD_STAGE"

func TestMain(m *testing.M) {
	switch os.Getenv(stageEnv) {
	case "shim":
		shimMain()
	case "worker":
		workerMain()
	case "daemon":
		daemonMain()
	case "ask":
		askMain()
	default:
		_ = os.Setenv(testPid, strconv.Itoa(os.Getpid()))
		testbox.Main(m)
	}
}

// testPid is the suite's process. A shim outlives its daemon, but not the suite.
const testPid = "SBXD_TEST_PID"

// endWithSuite ends this process when the suite's has ended.
func endWithSuite() {
	pid, err := strconv.Atoi(os.Getenv(testPid))
	if err != nil {
		panic(err)
	}
	for ; unix.Kill(pid, 0) != unix.ESRCH; time.Sleep(200 * time.Millisecond) {
	}
	os.Exit(1)
}

// daemonMain runs a daemon until it is told to end, for tests that kill it.
func daemonMain() {
	go endWithSuite()
	var o Options
	if err := json.Unmarshal([]byte(os.Getenv("SBXD_DAEMON")), &struct {
		StateRoot, Socket, RuntimeDir, RunAs *string
	}{&o.StateRoot, &o.Socket, &o.RuntimeDir, &o.RunAs}); err != nil {
		panic(err)
	}
	o.Launcher, o.Worker = testLauncher{}, testWorker{}
	o.Log = zap.Must(zap.NewDevelopment()) // debug: everything that could be told
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	if err := Run(ctx, o); err != nil {
		e := session.APIError(err)
		fmt.Fprintln(os.Stderr, e)
		os.Exit(e.Code)
	}
	os.Exit(0)
}

// askMain writes one request to a socket and prints the answer.
func askMain() {
	conn, err := net.Dial("unix", os.Getenv("SBXD_SOCKET"))
	if err == nil {
		_, err = io.WriteString(conn, os.Getenv("SBXD_REQUEST"))
	}
	if err == nil {
		_, err = io.Copy(os.Stdout, conn)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}
