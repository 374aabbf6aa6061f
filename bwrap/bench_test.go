package bwrap

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// clock tells how long ago its argument was, in nanoseconds.
func clock(res results, args []string) error {
	then, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	res["ns"] = fmt.Sprint(monotonic() - then)
	return nil
}

// BenchmarkMounts measures, from the holder's execve to the payload's first line, what
// mounts below the root cost bubblewrap, with the flags that it wants on each and
// without. The metric is "bwrap-ms"; ns/op has the whole stage in it.
func BenchmarkMounts(b *testing.B) {
	for _, plain := range []bool{false, true} {
		for _, n := range []int{0, 50, 100, 200, 500, 1000, 2000} {
			name := fmt.Sprintf("flagged/%d", n)
			if plain {
				name = fmt.Sprintf("plain/%d", n)
			}
			b.Run(name, func(b *testing.B) {
				var sum time.Duration
				best := time.Hour
				runs := 0
				for b.Loop() {
					got := inside(b, scene{Guest: []string{"clock"}, Mounts: n, Plain: plain})
					ns, err := strconv.ParseInt(got["ns"], 10, 64)
					if err != nil {
						b.Fatal(err)
					}
					sum, runs, best = sum+time.Duration(ns), runs+1, min(best, time.Duration(ns))
				}
				b.ReportMetric(float64(sum.Microseconds())/1000/float64(runs), "bwrap-ms")
				b.ReportMetric(float64(best.Microseconds())/1000, "min-ms")
			})
		}
	}
}
