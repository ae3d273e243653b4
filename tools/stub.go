package tools

// Embedded returns the definition of a tool that jp brings along.
func Embedded(name string) (Definition, bool) { return Definition{}, false }

// EmbeddedNames are the names for Embedded, sorted.
func EmbeddedNames() []string { return nil }

// FSEnv is what built-in tools work on.
type FSEnv struct {
	Workspace string   // absolute path of the folder that holds .jp
	Deny      []string // folders that no rule opens: the store
}

// Builtin returns the built-in tools of these definitions, or all as they are embedded if none is given.
func Builtin(env FSEnv, defs ...Definition) ([]Tool, error) { return nil, nil }

const workspaceFolder = ".jp"

func hasWorkspaceFolder(p string) bool { return false }
