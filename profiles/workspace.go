package profiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"jp/tools/files"
)

// FindWorkspace walks up from dir to the nearest folder that holds a .jp folder and returns its
// absolute path. The error wraps ErrNoWorkspace when there is none.
func FindWorkspace(dir string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("folder %s: %w", dir, err)
	}
	if info, err := os.Stat(start); err != nil {
		return "", fmt.Errorf("folder %s: %w", start, files.Reason(err))
	} else if !info.IsDir() {
		return "", fmt.Errorf("folder %s: is not a folder", start)
	}
	for at := start; ; at = filepath.Dir(at) {
		info, err := os.Stat(filepath.Join(at, ".jp"))
		switch {
		case err == nil && info.IsDir():
			return at, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("folder %s: %w", filepath.Join(at, ".jp"), files.Reason(err))
		case at == filepath.Dir(at):
			return "", fmt.Errorf("folder %s: %w here or above", start, ErrNoWorkspace)
		}
	}
}

// UserDir is the folder of the user's config: $XDG_CONFIG_HOME/jp, else ~/.config/jp. It is "" when
// the environment names neither; nothing is looked up or created.
func UserDir(environ []string) string {
	env := environment(environ)
	// The XDG specification says that a relative path is ignored.
	if dir := env["XDG_CONFIG_HOME"]; filepath.IsAbs(dir) {
		return filepath.Join(dir, "jp")
	}
	if home := env["HOME"]; filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "jp")
	}
	return ""
}
