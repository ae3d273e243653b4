package profiles

// LayerKind orders the layers; see the package comment.
type LayerKind string

// The kinds, in the order in which they are applied.
const (
	UserLayer      LayerKind = "user"            // the user's config.toml and what it extends
	WorkspaceLayer LayerKind = "workspace"       // .jp/config.toml and what it extends
	EnvLayer       LayerKind = "environment"     // one layer for each variable
	INILayer       LayerKind = "specializations" // the tools of the INI file that the layers before it name
	StoredLayer    LayerKind = "stored"          // the conversation's
	FileLayer      LayerKind = "file"            // a file or name of --cfg, and what it extends
	AssignLayer    LayerKind = "assignment"      // key=value of --cfg
	FlagLayer      LayerKind = "flag"            // a specific flag
	ResetLayer     LayerKind = "reset"           // NONE, WORKSPACE or loader.reset
)

// Layer is one thing that was read.
type Layer struct {
	Kind    LayerKind `json:"kind"`
	Name    string    `json:"name"`             // "user config", "JP_CFG_STYLE__...", "--cfg", "NONE", ...
	File    string    `json:"file,omitempty"`   // absolute path, or builtin:<name>
	Via     string    `json:"via,omitempty"`    // the file that extends this one
	SHA256  string    `json:"sha256,omitempty"` // of the file's bytes, hex
	Dropped bool      `json:"dropped"`          // a later reset or the stored config dropped it (machine and loader settings stay)
}

// Origin is what one layer says about one key.
type Origin struct {
	Position
	Kind    LayerKind `json:"kind"`
	Value   any       `json:"value"`   // as written there; nil for what only sets keys below it
	Dropped bool      `json:"dropped"` // no longer counts
}

// Value is one setting of the result.
type Value struct {
	Key     string   `json:"key"`
	Value   any      `json:"value"` // string, bool, int64, float64, []any or map[string]any; nil = not set, no default
	Default bool     `json:"default"`
	Machine bool     `json:"machine"`
	Origin  Position `json:"origin"` // zero for a default
}

// Table is one [conversation.tools.<name>], merged from all layers and not decoded.
type Table struct {
	Values map[string]any // string, bool, int64, float64, []any, map[string]any; owned by the caller
	// Pos returns where a key of the table was written. The key is dotted and quoted as in TOML,
	// such as "parameters.path.type"; "" is the table itself. For a key that nobody wrote it
	// returns the position of the nearest table around it.
	Pos func(key string) Position
}
