// Package fault lets tests make the n-th effect of an operation go wrong.
//
// The one idea: each effect that a crash or a full disk could interrupt has a
// name, and Hit stands in front of it. In a release build Hit is an empty
// function. In a binary built with the tag sbxdtest, SBXD_FAULT decides:
//
//	SBXD_FAULT=land.apply.rename:3:kill   the third land.apply.rename kills the process
//	SBXD_FAULT=*:12:fail                  the twelfth effect of any name fails
//	SBXD_FAULT=@/tmp/faults               what that file says at the time
//
// Actions: fail (EIO), enospc (ENOSPC), kill (SIGKILL to the process itself), stop
// (SIGSTOP; the effect then goes on).
// Several faults are separated by commas. An operation may end in '*':
// "start.*" counts every effect whose name begins with "start.".
package fault

// Hit announces that the effect op comes next. It returns the error that the
// effect is to fail with, nil nearly always.
func Hit(op string) error { return hit(op) }
