package profiles

import (
	"embed"
	"io/fs"
)

//go:embed agent/*.toml
var builtinFiles embed.FS

// Builtin returns the bytes of a built-in profile by its name, agent/researcher for one.
func Builtin(name string) ([]byte, bool) {
	if !fs.ValidPath(name) {
		return nil, false
	}
	data, err := builtinFiles.ReadFile(name + ".toml")
	return data, err == nil
}

// Builtins lists the names of the built-in profiles, sorted.
func Builtins() []string { panic("profiles: being built") }

// File is one file that `jp init` writes.
type File struct {
	Name string // slash-separated, below the workspace folder
	Data []byte
}

// InitFiles returns the files of a new workspace whose main agent runs model. The profiles keep their own
// model when it has the same provider, and take model otherwise.
func InitFiles(model string) []File { panic("profiles: being built") }
