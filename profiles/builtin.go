package profiles

import (
	"bytes"
	"embed"
	"io/fs"
	"strings"

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

// initModel is the word in the embedded files that the model replaces.
const initModel = "anthropic/claude-sonnet-5-5"

// InitFiles returns the files of a new workspace whose main agent runs model. The profiles have
// their own model if it is of the same provider, and model otherwise. The model is written
// unchanged: check one that a person typed with Config.ResolveModel first.
func InitFiles(model string) []File {
	read := func(name, model string) []byte {
		data, _ := builtinFiles.ReadFile(name) // embedded: cannot fail
		return bytes.Replace(data, []byte(`"`+initModel+`"`), []byte(tomldoc.String(model)), 1)
	}
	agent := model
	if provider, _, _ := strings.Cut(initModel, "/"); strings.HasPrefix(model, provider+"/") {
		agent = initModel
	}
	return []File{
		{".jp/config.toml", read("init.toml", model)},
		{".jp/config/agent/planner.toml", read("agent/planner.toml", agent)},
		{".jp/config/agent/researcher.toml", read("agent/researcher.toml", agent)},
		{".jp/.gitignore", read("init.gitignore", model)},
	}
}
