package attach

import "testing"

// An address that is signed is not told to a model, nor kept.
func TestWithoutValues(t *testing.T) {
	for ref, want := range map[string]string{
		"https://h/x":                       "https://h/x",
		"https://h/x#part":                  "https://h/x#part",
		"https://h/x?sig=SIGNED&exp=&a=b=c": "https://h/x?sig=...&exp=&a=...",
		"https://h/cb#token=SECRET":         "https://h/cb",
		"https://h/x?SIGNED#k=v":            "https://h/x?...",
		"https://h/x?":                      "https://h/x?",
	} {
		if got := WithoutValues(ref); got != want {
			t.Errorf("WithoutValues(%q) = %q, want %q", ref, got, want)
		}
	}
}
