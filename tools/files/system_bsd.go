//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package files

import (
	"io/fs"
	"os"
)

// OfKernel reports false: there are no such file systems.
func OfKernel(*os.Root) (bool, error) { return false, nil }

// Mounts returns none.
func Mounts() (MountList, error) { return MountList{}, nil }

func statNoLinks(path string) (fs.FileInfo, error) { return lstatAll(path) }

func openNoLinks(path string) (*os.File, error) { return openSame(path, Reading) }
