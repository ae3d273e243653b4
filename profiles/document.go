package profiles

import (
	"strconv"

	"jp/profiles/fault"
	"jp/profiles/tomldoc"
)

// document is the content of one layer: a tree of map[string]any, []any, string, bool, int64 and
// float64.
type document struct {
	layer Layer
	tree  map[string]any
	marks *tomldoc.Mark // of a file; nil otherwise
	from  location      // of a file
	once  bool          // whether it holds for this run only: it is not stored
}

// position returns where the value at parts was written, or else the nearest table around it.
func (d *document) position(parts []string) Position {
	return Position{File: d.layer.File, Line: d.marks.At(parts), Layer: d.layer.Name}
}

// fail is an error about the value at parts.
func (d *document) fail(parts []string, msg, hint string) *Error {
	p := d.position(parts)
	return &Error{File: p.File, Line: p.Line, Layer: p.Layer, Key: tomldoc.JoinKey(parts), Msg: msg, Hint: hint}
}

// failItem is an error about an item of the list at parts: it has the key of the list and the line
// of the item.
func (d *document) failItem(parts []string, i int, msg, hint string) *Error {
	e := d.fail(append(parts[:len(parts):len(parts)], strconv.Itoa(i)), "item "+strconv.Itoa(i+1)+" "+msg, hint)
	e.Key = tomldoc.JoinKey(parts)
	return e
}

// parseTOML reads the bytes of one file. Its errors have no file and no layer.
func parseTOML(data []byte) (tree map[string]any, marks *tomldoc.Mark, err error) {
	tree, marks, err = tomldoc.Tree(data)
	if err != nil {
		return nil, nil, fault.OfTOML(err)
	}
	return tree, marks, nil
}
