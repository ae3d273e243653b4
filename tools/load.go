package tools

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"jp/profiles/tomldoc"
	"jp/tools/brief"
	"jp/tools/files"
)

// maxDefinition bounds a definition file in bytes.
const maxDefinition = 1 << 20

// DecodeFiles reads the *.toml files of a folder. files has their bytes by their names, dir is the
// name of the folder in messages. The definitions are returned by the names of the tools, and so are
// the names of their files. When some files are broken, the others are returned, with an error that
// joins one for each broken file; an error about the content of a file is a *DefinitionError.
func DecodeFiles(dir string, files map[string][]byte) (defs map[string]Definition, in map[string]string, err error) {
	read := func(name string) ([]byte, error) {
		src, ok := files[name]
		switch {
		case !ok:
			return nil, iofs.ErrNotExist
		case len(src) > maxDefinition:
			return nil, fmt.Errorf("is larger than %s", brief.Size(maxDefinition))
		}
		return src, nil
	}
	defs, in = map[string]Definition{}, map[string]string{}
	var all []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".toml") || strings.HasPrefix(name, ".") {
			continue
		}
		path := filepath.Join(dir, name)
		def, err := decodeFile(path, name, read)
		switch {
		case err != nil:
			all = append(all, err)
		case in[def.Name] != "":
			all = append(all, &DefinitionError{Pos: path, Tool: def.Name, Msg: "is defined already, in " + filepath.Join(dir, in[def.Name])})
		default:
			defs[def.Name], in[def.Name] = def, name
		}
	}
	return defs, in, errors.Join(all...)
}

// decodeFile decodes the definition file name, which messages call path. read returns the bytes of a
// file in its folder.
func decodeFile(path, name string, read func(name string) ([]byte, error)) (Definition, error) {
	src, err := read(name)
	if err != nil {
		return Definition{}, fmt.Errorf("%s: %w", path, files.Reason(err))
	}
	var table map[string]any
	_, marks, err := tomldoc.Decode(src, &table)
	if bad, ok := errors.AsType[*tomldoc.Error](err); ok {
		at := path
		if bad.Line > 0 {
			at = fmt.Sprintf("%s:%d", path, bad.Line)
		}
		return Definition{}, fmt.Errorf("%s: %s", at, bad.Msg)
	}
	lines := marks.Lines()
	pos := func(key string) string {
		if n := lines[key]; n > 0 {
			return fmt.Sprintf("%s:%d", path, n)
		}
		if key == "" {
			return path
		}
		return ""
	}
	tool, ok := table[keyName].(string)
	if !ok {
		base := strings.TrimSuffix(filepath.Base(path), ".toml")
		return Definition{}, newDecoder(base, table, pos).errorf(keyName, "want the name of the tool, not %s", typeName(table[keyName]))
	}
	if _, ok := table[keyEnable]; ok {
		return Definition{}, newDecoder(tool, table, pos).errorf(keyEnable, "belongs into a config file: a file of its own only defines a tool")
	}
	def, err := decode(tool, table, pos, read)
	if err == nil {
		err = checkSource(def, pos)
	}
	return def, err
}
