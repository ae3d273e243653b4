package profiles

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"jp/profiles/kinds"
	"jp/profiles/tomldoc"
)

// load reads the file at and what it extends, as documents in the order in which they apply: the
// file itself last. It checks only what reading needs.
func (r *resolver) load(kind LayerKind, name string, at location) ([]*document, error) {
	if at.builtin != "" {
		data, _ := Builtin(at.builtin)
		d := &document{layer: Layer{Kind: kind, Name: name, File: at.abs(), SHA256: hashHex(data)}, from: at}
		if err := d.parse(data); err != nil {
			return nil, err
		}
		return []*document{d}, nil
	}
	data, from, err := r.files.read(at)
	if err != nil {
		e := &Error{File: at.abs(), Msg: err.Error(), Err: err}
		if errors.Is(err, fs.ErrNotExist) {
			e.Msg, e.Err = "not found", ErrNotFound
		}
		return nil, e
	}
	return r.extend(&document{layer: Layer{Kind: kind, Name: name, File: at.abs(), SHA256: hashHex(data)}, from: r.files.direct(at)}, data, []opened{from})
}

// extend parses d and loads what it extends. open are the files being read, d's own last.
func (r *resolver) extend(d *document, data []byte, open []opened) ([]*document, error) {
	if d.layer.Kind == UserLayer {
		r.UserReads = append(r.UserReads, d.layer.File)
	}
	if err := d.parse(data); err != nil {
		return nil, err
	}
	entries, err := d.extends()
	if err != nil {
		return nil, err
	}
	r.claim(d, entries)
	var docs []*document
	for i, entry := range entries {
		fail := func(msg string, err error) ([]*document, error) {
			e := d.fail([]string{"extends", strconv.Itoa(i)}, msg, "")
			e.Key, e.Err = "extends", err
			return nil, e
		}
		found, err := r.files.glob(d.from, entry)
		if err != nil {
			return fail("item "+strconv.Itoa(i+1)+" "+err.Error(), err)
		}
		for _, at := range found {
			data, from, err := r.files.read(at)
			if err != nil {
				return fail(at.abs()+": "+err.Error(), err)
			}
			if slices.ContainsFunc(open, from.is) {
				return fail(at.abs()+" extends itself, over this file or directly", nil)
			}
			below := &document{layer: d.layer, from: r.files.direct(at)}
			below.layer.File, below.layer.Via, below.layer.SHA256 = at.abs(), d.layer.File, hashHex(data)
			more, err := r.extend(below, data, append(open[:len(open):len(open)], from))
			if err != nil {
				return nil, err
			}
			docs = append(docs, more...)
		}
	}
	return append(docs, d), nil
}

// claim records what the user's own config reads beside its files, as soon as it exists: what its
// patterns match, profiles, and specializations.
func (r *resolver) claim(d *document, extends []string) {
	if d.layer.Kind != UserLayer {
		return
	}
	for _, entry := range extends {
		switch base, pattern, err := r.files.base(d.from, entry); {
		case err != nil:
		case pattern != "":
			r.UserPatterns = append(r.UserPatterns, Pattern{base.abs(), pattern})
		default:
			r.UserReads = append(r.UserReads, base.abs())
		}
	}
	list, _ := d.tree["config_load_paths"].([]any)
	for _, item := range list {
		entry, _ := item.(string)
		if at, err := r.searchDir(d, entry); err == nil && entry != "" {
			r.UserReads = append(r.UserReads, at.abs())
		}
	}
	named, _ := tomldoc.Lookup(d.tree, strings.Split(specializationsKey, "."))
	entry, _ := named.(string)
	if at, err := r.iniFile(d, entry); err == nil {
		r.UserReads = append(r.UserReads, at.abs())
	}
}

func (d *document) parse(data []byte) error {
	tree, marks, err := parseTOML(data)
	if err != nil {
		e := err.(*Error)
		e.File = d.layer.File
		return e
	}
	d.tree, d.marks = tree, marks
	return nil
}

// extends is the document's list of files, checked as far as reading needs.
func (d *document) extends() ([]string, error) {
	v, ok := d.tree["extends"]
	if !ok {
		return nil, nil
	}
	if err := kinds.Texts.Accept(v); err != nil {
		return nil, d.fail([]string{"extends"}, err.Error(), "")
	}
	var entries []string
	for i, item := range v.([]any) {
		s, ok := item.(string)
		if !ok {
			return nil, d.failItem([]string{"extends"}, i, "must be text, not "+kinds.NameOf(item), "")
		}
		entries = append(entries, s)
	}
	return entries, nil
}

// loaderSetting applies config_load_paths and delegation.specializations; extends and loader.reset
// were applied when the file was read.
func (r *resolver) loaderSetting(d *document, l leaf) error {
	switch l.row.key {
	case specializationsKey:
		return r.specializationsSetting(d, l)
	case "config_load_paths":
	default:
		return nil
	}
	list := l.value.([]any)
	dirs := make([]location, 0, len(list))
	for i, item := range list {
		at, err := r.searchDir(d, item.(string))
		if err != nil {
			return d.failItem([]string{"config_load_paths"}, i, err.Error(), "")
		}
		dirs = append(dirs, at)
	}
	switch {
	case d.from.place.confined:
		r.own = dirs
	case d.from.path != "": // it is for all workspaces: their folders come first where it does not name them
		own := slices.DeleteFunc(slices.Clone(r.own), func(at location) bool { return slices.Contains(dirs, at) })
		dirs = slices.Concat(own, dirs)
	}
	r.search, r.paths = dirs, list
	return nil
}

// searchDir: in the workspace's files a path is relative to the workspace and stays in .jp. In
// other files it is relative to their folder. Elsewhere it is relative to the workspace, or without
// one to the working directory.
func (r *resolver) searchDir(d *document, entry string) (location, error) {
	base := r.dir
	if r.src.Workspace != "" {
		base = r.src.Workspace
	}
	switch {
	case d.from.place.confined:
		if !path.IsAbs(entry) && !strings.HasPrefix(entry, "~/") {
			if at := r.files.at(filepath.Join(base, entry)); at.place.confined {
				return at, nil
			}
		}
		return location{}, errors.New("leads out of the workspace's .jp folder")
	case d.from.path != "":
		base = filepath.Dir(d.from.path)
	}
	abs, err := r.files.tilde(entry)
	if err != nil {
		return location{}, err
	}
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(base, abs)
	}
	return r.files.at(filepath.Clean(abs)), nil
}
