//go:build !sbxdtest

package feature

func off(string) bool { return false }
