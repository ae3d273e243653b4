package profiles

import (
	"path/filepath"
	"slices"
	"strconv"

	"jp/profiles/fault"
)

// Check reads the file at an absolute path with all that it extends, as a profile or, if it is
// that, as the workspace's config. It returns every mistake in them, those of the first broken file
// first. It does not find what Resolve finds only when layers meet. A pattern of `extends` that
// matches nothing is a mistake.
func Check(src Sources, file string) []*Error {
	r, err := newResolver(src)
	if err != nil {
		return []*Error{asError(err)}
	}
	kind, name := FileLayer, "check"
	if r.src.Workspace != "" && file == filepath.Join(r.files.jp, "config.toml") {
		kind, name = WorkspaceLayer, "workspace config"
	}
	docs, err := r.load(kind, name, r.files.at(filepath.Clean(file)))
	if err != nil {
		return []*Error{asError(err)}
	}
	var list []*Error
	for _, d := range docs {
		leaves, errs := r.schema.check(d)
		fault.Sort(errs)
		list = append(list, errs...)
		for _, l := range leaves {
			if l.row.class != loader {
				continue
			}
			if err := r.loaderSetting(d, l); err != nil {
				list = append(list, asError(err))
			}
		}
		entries, _ := d.extends() // load has read them
		for i, entry := range entries {
			if found, err := r.files.glob(d.from, entry); err == nil && len(found) == 0 {
				e := d.fail([]string{"extends"}, "item "+strconv.Itoa(i+1)+" matches no file", "")
				list = append(list, e)
			}
		}
	}
	return list
}

// Extends lists the files that the file at an absolute path names by `extends`, absolute paths, and
// those that these name, as far as they can be read; nil when it cannot be read itself.
func Extends(src Sources, file string) []string {
	r, err := newResolver(src)
	if err != nil {
		return nil
	}
	file = filepath.Clean(file)
	_, _ = r.load(UserLayer, "check", r.files.at(file)) // files named beside a mistake count
	return slices.DeleteFunc(r.UserReads, func(read string) bool { return read == file })
}

// asError is err, which is an *Error wherever it came from a file.
func asError(err error) *Error {
	if e, ok := err.(*Error); ok {
		return e
	}
	return &Error{Msg: err.Error(), Err: err}
}
