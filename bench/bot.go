package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/sbxd/sbxd/api"
)

// bot times what a bot does, which has a connection and starts no program of its own:
//
//	api:start DIR      start a session of DIR and run the first command
//	api:exec SESSION   run a further one
func bot(what, prepare string) (float64, error) {
	if words := strings.Fields(prepare); len(words) > 0 {
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%w: %s", err, out)
		}
	}
	ctx := context.Background()
	client := api.New(os.Getenv("SBXD_SOCKET"))
	defer client.Close()
	if _, err := client.Version(ctx); err != nil { // the connection
		return 0, err
	}
	op, arg, _ := strings.Cut(what, " ")
	begun := time.Now()
	if op == "start" {
		s, err := client.Start(ctx, api.StartRequest{Project: arg, Home: os.Getenv("HOME")})
		if err != nil {
			return 0, err
		}
		arg = s.ID
	}
	exit, err := client.Exec(ctx, arg, api.ExecRequest{Argv: []string{"/usr/bin/true"}}, api.Streams{})
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("exit code %d", exit.Code)
	}
	return time.Since(begun).Seconds(), err
}
