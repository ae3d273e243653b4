package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"jp/tools/suggest"
)

// Advice returns what to try: the known model that a misspelled one most likely means, or else
// Hint.
func (e *Error) Advice() string {
	if near := suggest.Closest(e.Model, Known()); near != "" && near != e.Model {
		return fmt.Sprintf("did you mean %s? `jp model ls` lists what is known", near)
	}
	return e.Hint
}

// Near returns the model that an unknown name most likely means.
func Near(name string) string {
	if id := Meant(name); id != "" {
		return id
	}
	bare, begins := map[string]string{}, ""
	for _, id := range Known() {
		_, known, _ := strings.Cut(id, "/")
		bare[known] = id
		if begins == "" && len(name) > 2 && strings.HasPrefix(known, name) {
			begins = id
		}
	}
	return cmp.Or(begins, bare[suggest.Closest(name, slices.Collect(maps.Keys(bare)))])
}
