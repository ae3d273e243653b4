package profiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"jp/profiles/delta"
	"jp/profiles/skill"
	"jp/profiles/tomldoc"
	"jp/tools/files"
)

// Sources says where config comes from. The zero value has program defaults only.
//
// Files has what is read of the workspace, by slash path below it: .jp, and for skills .agents and
// .claude. Without it the workspace is no layer, and a config file that lies in its .jp, or that
// links lead to there, is an error that wraps ErrWithheld. Package ondisk reads the files as they are.
type Sources struct {
	Workspace string   // folder that holds .jp; "" = outside of one
	Files     fs.FS    // of the workspace, the only way to them; nil = none is read, see below
	UserDir   string   // folder of the user's config.toml and config/, see UserDir; "" = none
	Dir       string   // folder that relative --cfg paths begin in; "" = the process's working directory
	Environ   []string // KEY=VALUE; read for JP_CFG_*, JP_SUB_CALLS_* and HOME
	Stored    []byte   // the conversation's stored config as Resolved.Stored gave it; empty = a new conversation
	Person    bool     // whether a person's Stored: JP_SUB_CALLS_* count beside it, as not beside a granted one
	Reserved  []string // names of tools that no specialization may take

	// NearModel returns the id that was probably meant by a name that is no model; "" = none. nil
	// knows none.
	NearModel func(name string) string

	// Instructions is a file of project instructions that the workspace has:
	// assistant.instructions, unless its config says otherwise. "" = none.
	Instructions string

	// Instead has content for config files, by absolute path. It is read in place of the file,
	// which need not exist: so a file can be tried before it is written.
	Instead map[string][]byte
}

// Directive is one flag of the command line.
type Directive struct {
	Flag string // as the user knows it: "--cfg", "--model"
	Text string // its value: for --cfg any form, for a specific flag key=value or key:=json
	Once bool   // whether a specific flag holds for this run only: it is not stored
}

// Resolved is a config and where it came from. Only Cut changes it; concurrent reads are safe.
type Resolved struct {
	Config Config

	Reset       bool   // NONE, WORKSPACE or a file's loader.reset dropped the stored config: record a reset
	ResetKind   string // "none" or "workspace", of the last reset; "" without Reset
	Profile     string // the last file or name loaded by --cfg, as given; "" = none
	ProfileArg  string // name of Profile in the argv of a child: absolute path or builtin:<name>
	ProfileHash string // hex SHA-256 of that file; with extends, of the hashes of all its files

	Tools map[string]Table // [conversation.tools.<name>], not decoded, '*' included

	// Specializations are the delegation tools that INI sections define, by name: all of them for a
	// new conversation, else those that the stored config has. Tools enables them.
	Specializations map[string]Specialization

	Layers   []Layer  // everything read, in order, dropped ones included
	Warnings []string // what the user should know, one line each

	// What the user's own config reads, also what does not exist yet, and if it has a mistake.
	UserPatterns []Pattern
	UserReads    []string // its files, folders of config_load_paths, and files of specializations

	schema  *schema
	applied []*applied
	plain   map[string]any // merged
	kept    map[string]any // merged: what is stored, which is plain without what holds for this run only
	machine map[string]any // merged: what is not
	paths   []any          // config_load_paths as written; nil = the default

	iniName string // delegation.specializations as written; "" = the default
	none    bool   // NONE is among the directives: no implicit layers
}

// Pattern is a pattern of `extends`.
type Pattern struct {
	Dir   string // absolute
	Match string // below Dir; of path.Match
}

// applied is a document in the stack of layers.
type applied struct {
	*document
	dropped bool
}

// Resolve applies the directives ds from left to right on the implicit layers, then the specific
// flags. Every error is an *Error; the first one ends the work.
//
// With NONE among ds no implicit layer is read but for machine settings. Files before the last NONE
// or WORKSPACE are not opened.
func Resolve(src Sources, ds, flags []Directive) (*Resolved, error) {
	r, err := review(src, ds, flags)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Review is Resolve for a page about files of strangers. If a mistake shows only in all layers
// together, and so another layer could mend it, the Resolved is returned beside the error.
func Review(src Sources, ds []Directive) (*Resolved, error) { return review(src, ds, nil) }

func review(src Sources, ds, flags []Directive) (*Resolved, error) {
	r, err := newResolver(src)
	if err != nil {
		return nil, err
	}
	if err := r.layer(ds, flags); err != nil {
		return nil, err
	}
	return r.Resolved, r.finish()
}

// layer applies the implicit layers, the directives and the flags.
func (r *resolver) layer(ds, flags []Directive) error {
	r.specials = true
	cfg, last, err := r.parse(ds)
	if err != nil {
		return err
	}
	if err := r.implicit(); err != nil {
		return err
	}
	for i, p := range cfg {
		if err := r.apply(p, i < last); err != nil {
			return err
		}
	}
	for _, f := range flags {
		p, err := parseDirective(f)
		if err == nil && p.form != assignForm {
			err = &Error{Layer: f.Flag, Msg: "must be key=value"}
		}
		if err != nil {
			return err
		}
		if err := r.assign(p, FlagLayer, f.Once); err != nil {
			return err
		}
	}
	return nil
}

// resolver is the state of one Resolve.
type resolver struct {
	*Resolved
	src    Sources
	dir    string // absolute
	env    map[string]string
	files  *reader
	anew   bool       // WORKSPACE is among them: the stored config is not read
	search []location // folders in which names are looked up
	own    []location // those of the workspace: .jp/config, or those that its files name
	names  []string   // of the profiles in them, once one was not found; nil = not listed

	skills   skill.Places
	specials bool      // specializations are wanted
	ini      *location // of their file; nil = none
	iniSet   bool      // a config names it, so it must exist

	// The state that WORKSPACE returns to.
	workspace      map[string]any // plain
	workspaceKept  map[string]any // kept
	workspaceCount int            // of applied
}

func newResolver(src Sources) (*resolver, error) {
	env := environment(src.Environ)
	f := &reader{instead: src.Instead}
	if home := env["HOME"]; filepath.IsAbs(home) {
		f.home = filepath.Clean(home)
	}
	r := &resolver{
		Resolved: &Resolved{schema: newSchema(), plain: map[string]any{}, kept: map[string]any{}, machine: map[string]any{}},
		src:      src, env: env, files: f,
	}
	dir := src.Dir
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return nil, &Error{Layer: "working directory", Msg: files.Reason(err).Error(), Err: err}
		}
		dir = wd
	}
	for _, p := range []*string{&dir, &r.src.Workspace, &r.src.UserDir} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return nil, &Error{File: *p, Msg: files.Reason(err).Error(), Err: err}
		}
		*p = abs
	}
	r.dir = dir
	r.skills = skill.Places{Workspace: r.src.Workspace, Files: src.Files, Home: f.home}
	if r.src.Workspace != "" {
		f.jp, f.workspace = filepath.Join(r.src.Workspace, inJP), src.Files
	}
	if f.workspace == nil {
		r.src.Workspace = ""
	} else {
		r.own = []location{{place: place{f.jp, true}, path: "config"}}
		r.search = slices.Clone(r.own)
		r.ini = &location{place: place{f.jp, true}, path: specializationsFile}
	}
	if r.src.UserDir != "" {
		r.search = append(r.search, f.at(filepath.Join(r.src.UserDir, "config")))
	}
	return r, nil
}

// parse parses all --cfg directives and returns the index of the last NONE or WORKSPACE, -1 without
// one.
func (r *resolver) parse(ds []Directive) ([]parsed, int, error) {
	cfg, last := make([]parsed, 0, len(ds)), -1
	for i, d := range ds {
		p, err := parseDirective(d)
		if err != nil {
			return nil, 0, err
		}
		switch p.form {
		case noneForm:
			r.none, last = true, i
		case workspaceForm:
			r.anew, last = true, i
		}
		cfg = append(cfg, p)
	}
	if r.none && r.anew {
		return nil, 0, &Error{Layer: "--cfg", Msg: "NONE and WORKSPACE exclude each other", Hint: "give one of them"}
	}
	return cfg, last, nil
}

// implicit applies the layers that no directive names.
func (r *resolver) implicit() error {
	if dir := r.src.UserDir; dir != "" {
		if err := r.configFile(UserLayer, "user config", r.files.at(filepath.Join(dir, "config.toml"))); err != nil {
			if !r.none || errors.Is(err, ErrWithheld) {
				return err
			}
			r.machine, r.applied = map[string]any{}, nil
			r.warn(userUnused + err.Error())
		}
	}
	if r.src.Workspace != "" && !r.none {
		if name := r.src.Instructions; name != "" {
			d, err := r.schema.assignment(Layer{Kind: WorkspaceLayer, Name: "the file " + name}, []string{"assistant", "instructions"}, name, false)
			if err != nil {
				return err
			}
			if err := r.add(d); err != nil {
				return err
			}
		}
		if err := r.configFile(WorkspaceLayer, "workspace config", location{place: place{r.files.jp, true}, path: "config.toml"}); err != nil {
			return err
		}
	}
	vars, err := r.schema.variables(r.env, r.none)
	if err != nil {
		return err
	}
	goesOn := len(r.src.Stored) > 0 && !r.none && !r.anew
	for _, d := range vars {
		if err := r.add(d); err != nil {
			return err
		}
	}
	if r.specials && !r.none && !goesOn {
		if err := r.specialize(); err != nil {
			return err
		}
	}
	r.workspace, r.workspaceKept, r.workspaceCount = tomldoc.CloneTable(r.plain), tomldoc.CloneTable(r.kept), len(r.applied)
	if !goesOn {
		return nil
	}
	d := &document{layer: Layer{Kind: StoredLayer, Name: "stored config", SHA256: hashHex(r.src.Stored)}}
	tree, err := delta.Table(r.src.Stored)
	if err != nil {
		return dropHint(err)
	}
	d.tree = tree
	// The stored config is complete: it hides everything before it.
	r.drop()
	if err := r.add(d); err != nil {
		return dropHint(err)
	}
	// A limit of the environment holds for every run where the conversation has that of the config
	// files, or a higher one: what --cfg or a flag said of it stays.
	for _, d := range vars {
		if d.once && r.src.Person && r.unsaid(d, tree) {
			if err := r.add(d); err != nil {
				return err
			}
		}
	}
	return r.respecialize()
}

// unsaid reports whether a stored config says of the setting of a variable what the config files say,
// over which the variable wins; or whether the variable allows less.
func (r *resolver) unsaid(d *document, stored map[string]any) bool {
	for key, value := range d.tree["delegation"].(map[string]any) {
		at := []string{"delegation", key}
		was, _ := tomldoc.Lookup(stored, at)
		is, _ := tomldoc.Lookup(r.workspaceKept, at)
		wins, _ := tomldoc.Lookup(r.workspace, at)
		if !less(value, was) && (!reflect.DeepEqual(was, is) || !reflect.DeepEqual(wins, value)) {
			return false
		}
	}
	return true
}

// less reports whether a value of a limit of delegation allows less than another one that was set.
func less(value, was any) bool {
	number := func(v any) (float64, bool) {
		switch v := v.(type) {
		case int64:
			return float64(v), true
		case float64:
			return v, true
		}
		return 0, false
	}
	n, limits := number(value)
	before, limited := number(was)
	return value == false || limits && (was == "unlimited" || limited && n < before)
}

const userUnused = "the user's config is not used: "

// withoutUser removes the user's config again. A mistake in it that shows only beside other layers
// must not keep NONE from starting.
func (r *resolver) withoutUser() {
	r.machine = map[string]any{}
	r.applied = slices.DeleteFunc(r.applied, func(a *applied) bool { return a.layer.Kind == UserLayer })
	for _, a := range r.applied {
		leaves, _ := r.schema.check(a.document) // it was right before
		for _, l := range leaves {
			if l.row.class == machine {
				tomldoc.Merge(r.machine, l.parts, l.value)
			}
		}
	}
}

// dropHint says what to do about a stored config that cannot be used, such as an old one.
func dropHint(err error) error {
	if e, ok := err.(*Error); ok {
		e.Hint = "drop it with --cfg=NONE or --cfg=WORKSPACE"
	}
	return err
}

// configFile applies a config.toml; one that does not exist is no layer. All its files are read and
// checked before the first is applied.
func (r *resolver) configFile(kind LayerKind, name string, at location) error {
	if ok, err := r.files.exists(at); err != nil {
		return &Error{File: at.abs(), Msg: err.Error(), Err: err}
	} else if !ok {
		return nil
	}
	docs, err := r.load(kind, name, at)
	if err != nil {
		return err
	}
	return r.add(docs...)
}

// apply applies one --cfg directive. Before the last NONE or WORKSPACE, files are not read;
// assignments there are dropped by the reset, machine settings excepted.
func (r *resolver) apply(p parsed, voided bool) error {
	switch p.form {
	case noneForm:
		r.reset("none", p.flag+" NONE", location{})
		return nil
	case workspaceForm:
		r.reset("workspace", p.flag+" WORKSPACE", location{})
		r.plain, r.kept = tomldoc.CloneTable(r.workspace), tomldoc.CloneTable(r.workspaceKept)
		for _, a := range r.applied[:r.workspaceCount] {
			a.dropped = false
		}
		return nil
	case assignForm:
		return r.assign(p, AssignLayer, false)
	}
	if voided {
		return nil
	}
	at, err := r.locate(p)
	if err != nil {
		return err
	}
	docs, err := r.load(FileLayer, p.flag, at)
	if e := (*Error)(nil); errors.As(err, &e) && p.form == pathForm && errors.Is(err, ErrNotFound) && e.Hint == "" {
		e.Hint = r.lostPath(p.arg)
	}
	if err != nil {
		return err
	}
	own := docs[len(docs)-1]
	if loader, ok := own.tree["loader"].(map[string]any); ok && loader["reset"] == "none" {
		r.reset("none", "loader.reset of "+own.layer.File, own.from)
	}
	r.Profile, r.ProfileArg, r.ProfileHash = p.text, own.layer.File, own.layer.SHA256
	if len(docs) > 1 {
		sums := []byte{}
		for _, d := range docs {
			sums = append(sums, d.layer.SHA256+"\n"...)
		}
		r.ProfileHash = hashHex(sums)
	}
	return r.add(docs...)
}

func (r *resolver) assign(p parsed, kind LayerKind, once bool) error {
	d, err := r.schema.assignment(Layer{Kind: kind, Name: p.flag}, p.key, p.arg, p.json)
	if err != nil {
		return err
	}
	d.once = once
	return r.add(d)
}

// add checks documents and, when all are right, puts them on the stack.
func (r *resolver) add(docs ...*document) error {
	leaves := make([][]leaf, len(docs))
	for i, d := range docs {
		found, errs := r.schema.check(d)
		if len(errs) > 0 {
			return errs[0]
		}
		leaves[i] = found
	}
	for i, d := range docs {
		for _, l := range leaves[i] {
			switch l.row.class {
			case stored:
				tomldoc.Merge(r.plain, l.parts, l.value)
				if !d.once {
					tomldoc.Merge(r.kept, l.parts, l.value)
				}
			case machine:
				tomldoc.Merge(r.machine, l.parts, l.value)
			case loader:
				if err := r.loaderSetting(d, l); err != nil {
					return err
				}
			}
		}
		r.applied = append(r.applied, &applied{document: d})
	}
	return nil
}

// reset returns to program defaults, as the file at from says; machine settings stay.
func (r *resolver) reset(kind, name string, from location) {
	r.drop()
	r.Reset, r.ResetKind = true, kind
	r.Profile, r.ProfileArg, r.ProfileHash = "", "", ""
	r.applied = append(r.applied, &applied{document: &document{layer: Layer{Kind: ResetLayer, Name: name}, from: from}})
}

// drop removes all settings so far.
func (r *resolver) drop() {
	r.plain, r.kept = map[string]any{}, map[string]any{}
	for _, a := range r.applied {
		a.dropped = a.layer.Kind != ResetLayer
	}
}

func (r *resolver) warn(msg string) { r.Warnings = append(r.Warnings, msg) }

// finish turns the merged trees into the result. The result is complete even if they have mistakes.
func (r *resolver) finish() error {
	res := r.Resolved
	warned := len(r.Warnings)
	err := r.complete()
	// With NONE only machine settings of a file count here, and the user's file is the only one.
	if e, ok := err.(*Error); ok && r.none && e.File != "" {
		r.withoutUser()
		r.Warnings = r.Warnings[:warned]
		r.warn(userUnused + e.Error())
		err = r.complete()
	}
	res.Tools = r.tools()
	if e := r.unspecialized(); err == nil {
		err = e
	}
	for _, a := range r.applied {
		a.layer.Dropped = a.dropped
		res.Layers = append(res.Layers, a.layer)
	}
	return err
}

// fill sets the typed fields from a checked tree.
func (s *schema) fill(c *Config, tree map[string]any, names []string) {
	for _, k := range sortedKeys(tree) {
		next, below := s.kids[k], names
		if next == nil {
			next, below = s.any, append(names[:len(names):len(names)], k)
		}
		if next.row != nil {
			if next.row.field != nil {
				assign(next.row.field(c, below), tree[k])
			}
			continue
		}
		next.fill(c, tree[k].(map[string]any), below)
	}
}

// complete fills the typed config and checks what takes more than one key.
func (r *resolver) complete() error {
	c := &r.Config
	*c = defaults()
	c.near = r.src.NearModel
	for _, tree := range []map[string]any{r.plain, r.machine} {
		r.schema.fill(c, tree, nil)
	}
	if d := c.Delegation.MaxDepth; d != nil && *d > maxDepth {
		at := r.where("delegation", "max_depth")
		r.warn(fmt.Sprintf("%s: delegation.max_depth: %d is above the deepest nesting, %d is used", at, *d, maxDepth))
		*d = maxDepth
	}
	_, c.Delegation.MaxCostSet = tomldoc.Lookup(r.plain, []string{"delegation", "max_cost_per_session"})
	for _, p := range []*string{&c.Store.Path, &c.Log.File} {
		abs, err := r.files.tilde(*p)
		if err != nil {
			key := []string{"store", "path"}
			if p == &c.Log.File {
				key = []string{"log", "file"}
			}
			return r.failAt(err.Error(), "", key...)
		}
		*p = abs
	}
	if r.ProfileArg != "" && (r.Reset && r.ResetKind == "none") {
		c.hint = "write model = \"provider/model\" below [assistant] in " + r.ProfileArg + ", or pass --model provider/model"
	}
	if err := r.launchers(); err != nil {
		return err
	}
	return r.endpoints()
}
