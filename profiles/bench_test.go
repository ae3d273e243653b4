package profiles

import "testing"

// What every child pays: NONE and one profile.
func BenchmarkResolveProfile(b *testing.B) {
	src := Sources{Dir: "/", Environ: []string{"HOME=/nowhere"}}
	ds := []Directive{{Flag: "--cfg", Text: "NONE"}, {Flag: "--cfg", Text: "builtin:agent/researcher"}}
	for b.Loop() {
		if _, err := Resolve(src, ds, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResolveStored(b *testing.B) {
	r, err := Resolve(Sources{Dir: "/"}, []Directive{{Flag: "--cfg", Text: "builtin:agent/researcher"}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	src := Sources{Dir: "/", Stored: r.Stored()}
	for b.Loop() {
		if _, err := Resolve(src, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}
