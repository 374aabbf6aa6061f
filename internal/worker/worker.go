// Package worker is the process that touches a user's trees: the same binary, started
// anew with the session's uid, one operation, JSON in and JSON out. So a root daemon
// never opens a file of a user, and a fault in reading hostile trees ends with a
// process that holds nothing.
//
// It knows the operations of session.Work and calls the packages that do them. It must
// not know the daemon, and keeps no state between operations.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/sbxd/sbxd/api"
	"github.com/sbxd/sbxd/internal/fault"
	"github.com/sbxd/sbxd/session"
)

// Stage is the value of SBXD_STAGE that makes a binary a worker.
const Stage = "worker"

// An operation gets its input and returns what is answered.
type operation func(ctx context.Context, w session.Work) (any, error)

// operations is the whole of what a worker can do.
var operations = map[string]operation{
	session.WorkPlaces:  places,
	session.WorkPrepare: prepare,
	session.WorkCapture: capture,
	session.WorkDiff:    diff,
	session.WorkLand:    landNow,
	session.WorkUndo:    undo,
	session.WorkLands:   lands,
	session.WorkRecover: recoverAll,
	session.WorkExecs:   execs,
	session.WorkLog:     output,
	session.WorkExplain: explain,
	session.WorkTrust:   trust,
	session.WorkRemove:  remove,
	session.WorkArchive: archive,
}

// request is what a worker reads, answer what it writes.
type request struct {
	Op   string       `json:"op"`
	Work session.Work `json:"work"`
}

type answer struct {
	Out json.RawMessage `json:"out,omitempty"`
	Err *api.Error      `json:"err,omitempty"`
}

// Bounds of what travels: a request is a record and rules, an answer may hold the text
// of a large diff.
const (
	maxRequest = 16 << 20
	maxAnswer  = 512 << 20
)

// Main runs a worker: one request on in, one answer on out. The answer holds the error
// of the operation; the error that is returned is one of the conversation.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	b, err := io.ReadAll(io.LimitReader(in, maxRequest+1))
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	var req request
	if len(b) > maxRequest {
		return fmt.Errorf("reading the request: it is longer than %d bytes", maxRequest)
	}
	if err := json.Unmarshal(b, &req); err != nil {
		return fmt.Errorf("decoding the request: %w", err)
	}
	b, err = json.Marshal(do(ctx, req))
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	if _, err := out.Write(b); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

func do(ctx context.Context, req request) answer {
	op, ok := operations[req.Op]
	if !ok {
		return answer{Err: &api.Error{Code: api.ExitFailed, Message: fmt.Sprintf("a worker has no operation %.40q", req.Op)}}
	}
	if err := asked(req.Work.Record); err != nil {
		return answer{Err: session.APIError(err)}
	}
	err := fault.Hit("worker." + req.Op)
	var out any
	if err == nil {
		out, err = op(ctx, req.Work)
	}
	var a answer
	if err != nil {
		a.Err = session.APIError(err)
	}
	if out != nil {
		b, err := json.Marshal(out)
		if err != nil {
			return answer{Err: session.APIError(fmt.Errorf("encoding the answer of %s: %w", req.Op, err))}
		}
		a.Out = b
	}
	return a
}

// asked refuses to work for another uid than the session's: a worker that was not
// switched would open a user's files with somebody else's rights.
func asked(r session.Record) error {
	if uid := os.Geteuid(); uid != r.UID {
		return fmt.Errorf("a worker of uid %d was asked to work for uid %d: %w", uid, r.UID, session.ErrDenied)
	}
	return nil
}

// Operations lists the names of what a worker can do, sorted.
func Operations() []string {
	var names []string
	for n := range operations {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

var errNoAnswer = errors.New("it ended without an answer")
