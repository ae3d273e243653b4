package trust

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// TestTools: a workspace that nobody has trusted yet has its definitions decoded once, whatever is
// wrong with them and however often they are asked for.
func TestTools(t *testing.T) {
	decode := func(n int) float64 {
		list := map[string]string{}
		for i := range n {
			list[fmt.Sprintf(".jp/tools/%04d.toml", i)] = fmt.Sprintf("name = \"x%d\"\nsource = \"delegation\"\n", i)
		}
		maps.Copy(list, map[string]string{
			".jp/tools/good.toml":  "name = \"good\"\nsource = \"local\"\ncommand = \"ls\"\n",
			".jp/tools/large.toml": strings.Repeat("#", MaxContributedKept+1),
		})
		_, root := gateAt(t, list)
		return testing.AllocsPerRun(1, func() {
			c, err := look(root)
			if err != nil {
				t.Fatal(err)
			}
			defs, err := c.Tools()
			if len(defs) != 1 || defs["good"].Name != "good" || c.DefinedIn()["good"] != ".jp/tools/good.toml" {
				t.Errorf("Tools = %v, of %v", defs, c.DefinedIn())
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != n+1 || !strings.HasSuffix(got[0], "/.jp/tools/large.toml: is no file of at most 1 MiB in .jp") ||
				!strings.HasSuffix(got[n], fmt.Sprintf(`/.jp/tools/%04d.toml:2: tool x%d: source: is "delegation", and jp has no tool of this name`, n-1, n-1)) {
				t.Errorf("Tools: %d errors, the first %s, the last %s", len(got), got[0], got[len(got)-1])
			}
			for range n {
				_, _ = c.Tools()
			}
		})
	}
	few, many := decode(50), decode(100)
	if many > 2.5*few {
		t.Errorf("%.0f allocations for 50 files and %.0f for 100", few, many)
	}
}
