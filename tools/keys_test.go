package tools

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Every key that a definition can have is explained, with the default that it has.
func TestKeys(t *testing.T) {
	var names []string
	decode := func(key string, v any) Definition {
		table := map[string]any{keySource: SourceLocal, keyCommand: "true"}
		if key != "" {
			table[key] = v
		}
		def, err := Decode("t", table, nil)
		if err != nil {
			t.Fatalf("Decode(%s = %v): %v", key, v, err)
		}
		if def.set = nil; len(def.Env) == 0 {
			def.Env = nil
		}
		return def
	}
	for _, k := range Keys() {
		name, _, _ := strings.Cut(k.Name, ".")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if k.Default == nil {
			continue
		}
		if got, want := decode(k.Name, k.Default), decode("", nil); !reflect.DeepEqual(got, want) {
			t.Errorf("Decode(%s = %v) = %+v, want %+v", k.Name, k.Default, got, want)
		}
	}
	if want := slices.Sorted(slices.Values(wholeLayer.keys)); !slices.Equal(names, want) {
		t.Errorf("Keys() = %q, want %q", names, want)
	}
}
