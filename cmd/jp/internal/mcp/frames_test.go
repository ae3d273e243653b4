package mcp

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"jp/tools/jsondoc"
)

// What is not too large comes through as it is, in whatever pieces it comes.
func TestFrames(t *testing.T) {
	big, many := strings.Repeat("x", maxMessage), "["+strings.Repeat("1,", jsondoc.MaxValues)+"1]"
	for _, test := range []struct{ name, in, want string }{
		{"small ones", "{\"id\":1}\n\n[]\nend", "{\"id\":1}\n\n[]\nend"},
		{"an id before", `{"jsonrpc":"2.0","id":12,"result":{"a":"` + big + "\"}}\nnext\n", `{"jsonrpc":"2.0","id":12,"error":{"code":-32000,"message":"the result is larger than 8 MB"}}` + "\nnext\n"},
		{"an id behind", `{"result":{"a":"` + big + "\"}, \"id\": 3, \"jsonrpc\": \"2.0\" }\nnext\n", `{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"the result is larger than 8 MB"}}` + "\nnext\n"},
		{"many values", `{"jsonrpc":"2.0","id":12,"result":{"a":` + many + "}}\nnext\n", `{"jsonrpc":"2.0","id":12,"error":{"code":-32000,"message":"the result has more than 262144 values"}}` + "\nnext\n"},
		{"many values that answer nothing", many + "\nnext\n", "[\nnext\n"},
		{"many values without an end", many, "["},
		{"many values at the end", `{"jsonrpc":"2.0","id":12,"result":{"a":` + many + "}}\n", `{"jsonrpc":"2.0","id":12,"error":{"code":-32000,"message":"the result has more than 262144 values"}}` + "\n"},
		{"a blank line and a message behind many values", `{"jsonrpc":"2.0","id":12,"result":{"a":` + many + "}}\n \n{}", `{"jsonrpc":"2.0","id":12,"error":{"code":-32000,"message":"the result has more than 262144 values"}}` + "\n \n{}"},
		{"many values in lines", many[:len(many)/2] + "\n" + many[len(many)/2:] + "\n[]\n", many[:len(many)/2] + "\n?\n[]\n"},
		{"many messages", strings.Repeat(many[:len(many)/2-1]+"]\n", 3), strings.Repeat(many[:len(many)/2-1]+"]\n", 3)},
		{"no answer", big + "xyz\nnext\n", big + "x\nnext\n"},
		{"an id in a text", `{"result":{"a":"` + big + `},\"id\":3}` + "\nnext\n", (`{"result":{"a":"` + big)[:maxMessage+1] + "\nnext\n"},
	} {
		for pieces, r := range map[string]io.Reader{"whole": strings.NewReader(test.in), "halves": iotest.HalfReader(strings.NewReader(test.in))} {
			got, err := io.ReadAll(&frames{ReadCloser: io.NopCloser(r)})
			if err != nil || string(got) != test.want {
				t.Errorf("%s in %s: %d bytes, %v, want %d; ends with %q", test.name, pieces, len(got), err, len(test.want), got[max(0, len(got)-80):])
			}
		}
	}
	if got := answered([]byte(`{"result":{`), []byte(`},"id":5}}`)); got != nil {
		t.Errorf("an id within the result = %s", got)
	}
}

// Of a message without an end no more is read than a bound says.
func TestFramesEndless(t *testing.T) {
	f := &frames{ReadCloser: io.NopCloser(io.MultiReader(strings.NewReader(`{"id":1,"result":"`), endless{}))}
	n, err := f.Read(make([]byte, 1))
	if n != 1 || err != nil || f.size < maxDrained || f.size > maxDrained+64<<10 {
		t.Errorf("Read = %d, %v after %d bytes, want a byte after %d", n, err, f.size, maxDrained)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("x"), len(p))), nil }
