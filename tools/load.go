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
// name of the folder in messages. The definitions are returned by the names of the tools. When some
// files are broken, the others are returned, with an error that joins one for each broken file; an
// error about the content of a file is a *DefinitionError.
func DecodeFiles(dir string, files map[string][]byte) (map[string]Definition, error) {
	names := slices.Sorted(maps.Keys(files))
	return decodeAll(dir, names, func(name string) ([]byte, error) {
		src, ok := files[name]
		switch {
		case !ok:
			return nil, iofs.ErrNotExist
		case len(src) > maxDefinition:
			return nil, fmt.Errorf("is larger than %s", brief.Size(maxDefinition))
		}
		return src, nil
	})
}

// decodeAll decodes the definitions among the files of a folder.
func decodeAll(dir string, names []string, read func(name string) ([]byte, error)) (map[string]Definition, error) {
	out, from := map[string]Definition{}, map[string]string{}
	var all []error
	for _, name := range names {
		if !strings.HasSuffix(name, ".toml") || strings.HasPrefix(name, ".") {
			continue
		}
		path := filepath.Join(dir, name)
		src, err := read(name)
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", path, files.Reason(err)))
			continue
		}
		def, err := decodeFile(src, path, read)
		switch {
		case err != nil:
			all = append(all, err)
		case from[def.Name] != "":
			all = append(all, &DefinitionError{Pos: path, Tool: def.Name, Msg: "is defined already, in " + from[def.Name]})
		default:
			out[def.Name], from[def.Name] = def, path
		}
	}
	return out, errors.Join(all...)
}

// decodeFile decodes the text of a definition file. read returns the bytes of another file in its
// folder.
func decodeFile(src []byte, path string, read func(name string) ([]byte, error)) (Definition, error) {
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
	name, ok := table[keyName].(string)
	if !ok {
		base := strings.TrimSuffix(filepath.Base(path), ".toml")
		return Definition{}, newDecoder(base, table, pos).errorf(keyName, "want the name of the tool, not %s", typeName(table[keyName]))
	}
	if _, ok := table[keyEnable]; ok {
		return Definition{}, newDecoder(name, table, pos).errorf(keyEnable, "belongs into a config file: a file of its own only defines a tool")
	}
	return decode(name, table, pos, read)
}
