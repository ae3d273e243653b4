package wire

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestProtocol compares the frames with those of Protocol. A sub-agent elsewhere with the same
// Protocol must know all of them: what it does not know of it does by itself, or leaves undone.
func TestProtocol(t *testing.T) {
	const protocol, frames = 7, "6a10f6071ec49cf8"
	var said strings.Builder
	seen := map[reflect.Type]bool{}
	var say func(reflect.Type)
	say = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			say(typ.Elem())
			return
		}
		if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[Start]().PkgPath() || seen[typ] {
			return
		}
		seen[typ] = true
		fmt.Fprintln(&said, typ)
		for f := range typ.Fields() {
			fmt.Fprintf(&said, "\t%s %s %s\n", f.Name, f.Type, f.Tag)
			say(f.Type)
		}
	}
	say(reflect.TypeFor[fromOwner]())
	say(reflect.TypeFor[fromChild]())
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(said.String())))[:16]; sum != frames || Protocol != protocol {
		t.Errorf("protocol %d has the frames %s, and this one, %d, has %s: raise Protocol where they change, and name both here; they are\n%s", protocol, frames, Protocol, sum, said.String())
	}
}
