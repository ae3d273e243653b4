package profiles

// Sources says where config comes from. The zero value has program defaults only.
type Sources struct {
	Workspace string   // folder that holds .jp; "" = outside of one
	UserDir   string   // folder of the user's config.toml and config/, see UserDir; "" = none
	Dir       string   // what relative --cfg paths are relative to; "" = the process's working directory
	Environ   []string // KEY=VALUE; read for JP_CFG_*, JP_SUB_CALLS_* and HOME
	Stored    []byte   // the conversation's stored config as Resolved.Stored gave it; nil = a new conversation
	HasGrant  bool     // the conversation was delegated: see Resolved.MustCut
}

// Directive is one flag of the command line.
type Directive struct {
	Flag string // as the user knows it: "--cfg", "--model"
	Text string // its value: for --cfg as in design; for specific flags always key=value or key:=json
}

// Resolved is a config and where it came from. It is immutable but for Cut, and safe for concurrent reads.
type Resolved struct {
	Config Config

	Reset       bool   // the stored config, where there was one, no longer counts: record a reset
	ResetKind   string // "none" or "workspace"; "" without Reset
	Profile     string // the last file or name loaded by --cfg, as given; "" = none
	ProfileArg  string // how a child's argv names it: absolute path or builtin:<name>
	ProfileHash string // hex SHA-256 of that file; with extends, of the list of all files' hashes
	MustCut     bool   // HasGrant and directives changed what was stored: call Cut with the grant's tools

	Tools    map[string]Table // [conversation.tools.<name>] undecoded, '*' included
	Layers   []Layer          // everything read, in order, dropped ones included
	Warnings []string         // what the user should know, one line each
}

// Resolve applies the directives ds from left to right on the implicit layers, then the specific flags. Every
// error is an *Error; the first one ends the work.
func Resolve(src Sources, ds, flags []Directive) (*Resolved, error) {
	panic("profiles: being built")
}

// Cut removes every tool but '*' that held does not name, from Tools and from what Stored returns, and returns
// the names it removed, sorted. Authority only narrows: nil removes all.
func (r *Resolved) Cut(held []string) []string { panic("profiles: being built") }

// Stored is the canonical JSON (sorted keys, no insignificant space) of all settings that were set, machine
// and loader settings left out: what a new conversation stores. Resolving it again gives the same bytes.
func (r *Resolved) Stored() []byte { panic("profiles: being built") }

// Origin returns the layers that set key or something below it, in order; the last one not dropped holds.
// It is empty for a key that nobody set.
func (r *Resolved) Origin(key string) []Origin { panic("profiles: being built") }

// Keys returns every setting with its value and origin, sorted by key: all that exist, the ones at their
// defaults included, and the leaves of tool tables.
func (r *Resolved) Keys() []Value { panic("profiles: being built") }
