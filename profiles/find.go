package profiles

// Profile is a profile that --cfg finds by name.
type Profile struct {
	Name     string `json:"name"`               // agent/researcher
	Arg      string `json:"arg"`                // absolute path, or builtin:<name>: what --cfg takes after NONE
	Source   string `json:"source"`             // workspace, user or builtin
	Shadowed bool   `json:"shadowed,omitempty"` // an earlier place has the same name
}

// Find looks a profile up as --cfg does before any NONE: a path, builtin:<name>, or a name in
// config_load_paths and among the built-ins. The error for a missing one wraps ErrNotFound.
func Find(src Sources, name string) (Profile, error) { panic("profiles: being built") }

// Names lists the profiles that Find can find by name, sorted by name, earlier places first.
func Names(src Sources) ([]Profile, error) { panic("profiles: being built") }
