// Command ratio runs commands in turn, one round after another, with hyperfine, and
// prints for each the median time and the median of its ratios to the first, round by
// round: a machine whose speed drifts changes times, not ratios.
//
//	ratio -rounds 30 plain='bwrap … true' sbxd='sbxd exec S -- true'
//
// A command may have a preparation, NAME@prepare=…, that is not timed, and a place to be
// timed in, NAME@via='sbxd exec S --': then hyperfine itself runs there; -via is that of
// those that have none. What -before names runs here ahead of each. A command that begins
// with "api:" is no program: see bot.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
)

type side struct {
	name, command, prepare, via string
	times, ratios               []float64 // seconds; to the first side
}

func main() {
	rounds := flag.Int("rounds", 30, "counted rounds; two more warm up")
	via := flag.String("via", "", "where sides are timed that do not say")
	before := flag.String("before", "", "a command to run before each side, not timed")
	flag.Parse()
	if err := run(*rounds, *via, *before, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "ratio:", err)
		os.Exit(1)
	}
}

const warmup = 2

func run(rounds int, via, before string, args []string) error {
	sides, err := parse(via, args)
	if err != nil {
		return err
	}
	for i := range rounds + warmup {
		var first float64
		for n := range sides {
			if err := shell(before); err != nil {
				return err
			}
			t, err := sides[n].time()
			if err != nil {
				return fmt.Errorf("%s: %w", sides[n].name, err)
			}
			if n == 0 {
				first = t
			}
			if i >= warmup {
				sides[n].times = append(sides[n].times, t)
				sides[n].ratios = append(sides[n].ratios, t/first)
			}
		}
	}
	return table(sides)
}

func shell(command string) error {
	if command == "" {
		return nil
	}
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return nil
}

func parse(elsewhere string, args []string) ([]side, error) {
	var sides []side
	prepare, via := map[string]string{}, map[string]string{}
	for _, a := range args {
		name, command, ok := strings.Cut(a, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not NAME=COMMAND", a)
		}
		if base, ok := strings.CutSuffix(name, "@prepare"); ok {
			prepare[base] = command
			continue
		}
		if base, ok := strings.CutSuffix(name, "@via"); ok {
			via[base] = command
			continue
		}
		sides = append(sides, side{name: name, command: command})
	}
	for i := range sides {
		at, ok := via[sides[i].name]
		if !ok {
			at = elsewhere
		}
		sides[i].prepare, sides[i].via = prepare[sides[i].name], at
	}
	if len(sides) < 2 {
		return nil, fmt.Errorf("a ratio needs two commands")
	}
	return sides, nil
}

// time runs the side once, by hyperfine without a shell.
func (s side) time() (float64, error) {
	if what, ok := strings.CutPrefix(s.command, "api:"); ok {
		return bot(what, s.prepare)
	}
	args := append(strings.Fields(s.via), "hyperfine", "-N", "--runs", "1", "--style", "none", "--export-json", "/dev/stdout")
	if s.prepare != "" {
		args = append(args, "--prepare", s.prepare)
	}
	cmd := exec.Command(args[0], append(args[1:], s.command)...)
	b, err := output(cmd)
	if err != nil {
		return 0, err
	}
	var r struct {
		Results []struct{ Mean float64 }
	}
	if err := json.Unmarshal(b, &r); err != nil || len(r.Results) != 1 {
		return 0, fmt.Errorf("read hyperfine's answer: %w", err)
	}
	return r.Results[0].Mean, nil
}

// output is what cmd writes to its /dev/stdout, which it may open anew as somebody else.
func output(cmd *exec.Cmd) ([]byte, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := w.Chmod(0o666); err != nil {
		return nil, err
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = w, &said
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	if failed := cmd.Wait(); failed != nil {
		return nil, fmt.Errorf("%w: %s", failed, said.String())
	}
	return b, err
}

func table(sides []side) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tmedian ms\tratio\tmin\tmax\t")
	for _, s := range sides {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t\n", s.name, 1000*median(s.times), median(s.ratios), slices.Min(s.ratios), slices.Max(s.ratios))
	}
	return w.Flush()
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}
