package main

// stages are the processes that the daemon and its children start from this same
// binary. They are no commands: nobody calls them by hand.
var stages = map[string]func() int{}

// stageOf returns the stage that this process is, or nil for a command line. It is
// asked before anything of the command line exists.
func stageOf(args []string, getenv func(string) string) func() int {
	if len(args) < 2 || getenv("SBXD_STAGE") == "" {
		return nil
	}
	return stages[args[1]]
}
