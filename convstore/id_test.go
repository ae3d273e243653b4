package convstore

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
)

func TestParseID(t *testing.T) {
	for _, test := range []struct {
		in   string
		want ID
	}{
		{"jp-c1", 1},
		{"jp-c17636174891", 17636174891},
		{"jp-c9223372036854775807", math.MaxInt64},
	} {
		got, err := ParseID(test.in)
		if got != test.want || err != nil {
			t.Errorf("ParseID(%q) = %d, %v, want %d", test.in, got, err, test.want)
		}
		if got.String() != test.in {
			t.Errorf("ParseID(%q).String() = %q", test.in, got.String())
		}
	}
	for _, in := range []string{
		"", "jp-c", "jp-c0", "jp-c01", "jp-c-1", "jp-c+1", "jp-c1 ", " jp-c1", "jp-c1.0", "jp-c1e3", "jp-c0x1", "jp-c1_000",
		"JP-C1", "jp-d1", "1", "jp-c9223372036854775808", "jp-c99999999999999999999999", "jp-c1\n", "jp-c١", "jp-c1/../2",
	} {
		id, err := ParseID(in)
		if id != 0 {
			t.Errorf("ParseID(%q) = %d, want none", in, id)
		}
		checkError(t, in, err, &NotFoundError{What: in})
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("jp-c17636174891")
	f.Add("jp-c0")
	f.Fuzz(func(t *testing.T, in string) {
		id, err := ParseID(in)
		if err != nil {
			var notFound *NotFoundError
			if id != 0 || !errors.As(err, &notFound) {
				t.Fatalf("ParseID(%q) = %d, %v", in, id, err)
			}
			return
		}
		if id <= 0 || id.String() != in {
			t.Fatalf("ParseID(%q) = %d, which is %q", in, id, id)
		}
	})
}

func TestIDText(t *testing.T) {
	in := map[ID]ID{1: 0, 2: 3}
	b, err := json.Marshal(in)
	if want := `{"jp-c1":"","jp-c2":"jp-c3"}`; string(b) != want || err != nil {
		t.Fatalf("Marshal = %s, %v, want %s", b, err, want)
	}
	var out map[ID]ID
	if err := json.Unmarshal(b, &out); err != nil || out[2] != 3 || out[1] != 0 {
		t.Errorf("Unmarshal = %v, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`"jp-c0"`), new(ID)); err == nil {
		t.Error(`Unmarshal("jp-c0"): no error`)
	}
}
