//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package files

import (
	"io/fs"
	"os"
)

// OfKernel reports false: there are no such file systems.
func OfKernel(*os.Root) (bool, error) { return false, nil }

// KernelFolders returns none.
func KernelFolders() ([]string, error) { return nil, nil }

func statNoLinks(path string) (fs.FileInfo, error) { return lstatAll(path) }

func openNoLinks(path string) (*os.File, error) { return openSame(path, Reading) }
