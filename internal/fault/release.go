//go:build !sbxdtest

package fault

func hit(string) error { return nil }
