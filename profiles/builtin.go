package profiles

import (
	"bytes"
	"embed"
	"io/fs"
	"strings"

	"jp/profiles/alias"
	"jp/profiles/tomldoc"
)

//go:embed agent/*.toml init.toml init.gitignore
var builtinFiles embed.FS

// Builtin returns the bytes of a built-in profile by its name, agent/researcher for one.
func Builtin(name string) ([]byte, bool) {
	if dir, _, _ := strings.Cut(name, "/"); dir != "agent" || !fs.ValidPath(name) {
		return nil, false
	}
	data, err := builtinFiles.ReadFile(name + ".toml")
	return data, err == nil
}

// Builtins lists the names of the built-in profiles, sorted.
func Builtins() []string {
	entries, _ := builtinFiles.ReadDir("agent") // embedded: cannot fail
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = "agent/" + strings.TrimSuffix(e.Name(), ".toml")
	}
	return names
}

// File is one file that `jp init` writes.
type File struct {
	Name string // slash-separated, below the workspace folder
	Data []byte
}

// InitFiles returns the files of a new workspace whose main agent runs model, and whose sub-agents
// run below. Both are written unchanged: check one that a person typed with Config.ResolveModel
// first.
func InitFiles(model, below string) []File {
	read := func(name, model string) []byte {
		data, _ := builtinFiles.ReadFile(name) // embedded: cannot fail
		return bytes.Replace(data, []byte(`"`+alias.Builtin()["sonnet"]+`"`), []byte(tomldoc.String(model)), 1)
	}
	return []File{
		{".jp/config.toml", read("init.toml", model)},
		{".jp/config/agent/planner.toml", read("agent/planner.toml", below)},
		{".jp/config/agent/researcher.toml", read("agent/researcher.toml", below)},
		{".jp/.gitignore", read("init.gitignore", model)},
	}
}
