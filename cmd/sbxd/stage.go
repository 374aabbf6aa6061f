package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/backing"
	"github.com/sbxd/sbxd/internal/feature"
	"github.com/sbxd/sbxd/internal/guest"
	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/internal/shim"
	"github.com/sbxd/sbxd/internal/worker"
	"github.com/sbxd/sbxd/overlay/kernel"
	"github.com/sbxd/sbxd/overlay/unionfs"
)

// stageOf returns the process of the daemon's or a session's that this one is, or nil
// for a command line. Nobody starts a stage by hand: it is named by the first argument
// of a process that has SBXD_STAGE set, or that is pid 1 of a session. This is asked
// before anything of the command line exists.
func stageOf(args []string, getenv func(string) string, pid int) func() int {
	if len(args) < 2 || getenv("SBXD_STAGE") == "" && pid != 1 {
		return nil
	}
	switch args[1] {
	case "shim":
		return shim.Main
	case shim.ProbeStage:
		return shim.ProbeMain
	case "holder":
		return holder.Main
	case "mounter":
		return holder.MounterMain
	case "guest":
		return func() int { return guestMain(args[2:]) }
	case backing.Stage:
		return func() int { return backing.Main(args[2:]) }
	case worker.Stage:
		return workerMain
	case kernel.ProbeStage:
		return func() int { kernel.ProbeMain(); return api.ExitOK }
	case unionfs.ProbeServeStage:
		return func() int { unionfs.ProbeServeMain(); return api.ExitOK }
	case unionfs.ProbeStage:
		return func() int { unionfs.ProbeMain(); return api.ExitOK }
	}
	return nil
}

// guestMain serves on the descriptor that its first argument names. It has no
// environment, so a test build is told there what to do without.
func guestMain(args []string) int {
	if len(args) == 0 {
		return api.ExitUsage
	}
	feature.Accept(args[1:])
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return api.ExitUsage
	}
	return guest.Main(fd)
}

func workerMain() int {
	ctx, stop := interruptible(context.Background())
	defer stop()
	if err := worker.Main(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return api.ExitFailed
	}
	return api.ExitOK
}
