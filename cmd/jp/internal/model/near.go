package model

import (
	"maps"
	"slices"
	"strings"

	"jp/tools/suggest"
)

// Near returns the model that an unknown name most likely means.
func Near(name string) string {
	if id := Meant(name); id != "" {
		return id
	}
	bare := map[string]string{}
	for _, id := range Known() {
		_, name, _ := strings.Cut(id, "/")
		bare[name] = id
	}
	return bare[suggest.Closest(name, slices.Collect(maps.Keys(bare)))]
}
