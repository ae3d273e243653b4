package profiles

import (
	"strings"
	"testing"
)

// FuzzLocateTokens is FuzzLocate over words of TOML instead of bytes, which reaches far more that
// the decoder accepts.
func FuzzLocateTokens(f *testing.F) {
	words := []string{"a", "b", "c", ".", "=", "1", "[", "]", "[[", "]]", "{", "}", ",", "\n", " ", "#", `"`, "'", `"""`, "'''", `\`, "\r\n",
		"true", `"a"`, "'b'", "a=1\n", "\n[a]\n", "\n[[b]]\n", "\n[a.b]\n", "={a=1}", "=[1,{b=1}]", `\u0061`}
	f.Add([]byte{0, 3, 1, 4, 5, 13, 26, 1, 4, 5, 27, 0, 29})
	f.Add([]byte{27, 0, 29, 27, 0, 30, 28, 2, 3, 0, 4, 10, 1, 3, 0, 4, 6, 5, 12, 13, 15, 7, 11})
	f.Add([]byte{0, 4, 18, 7, 13, 20, 16, 18, 18, 13, 1, 4, 5})
	f.Add([]byte{0, 14, 30, 13, 8, 0, 9, 13, 1, 29, 8, 0, 9, 13, 6, 0, 3, 1, 7})
	f.Fuzz(func(t *testing.T, picks []byte) {
		if len(picks) > 200 {
			return
		}
		var b strings.Builder
		for _, p := range picks {
			b.WriteString(words[int(p)%len(words)])
		}
		src := b.String()
		if tree, marks, err := parseTOML([]byte(src)); err == nil {
			compare(t, src, strings.Split(src, "\n"), tree, marks, nil)
		}
	})
}
