//go:build !linux

package early

func largePages() {}
