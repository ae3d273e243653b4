package term

import "testing"

// TestMessage: lines end between words, and commands can be copied.
func TestMessage(t *testing.T) {
	const again = "hint: resume with: jp query --id jp-c17000000001"
	for _, tt := range []struct {
		width      int
		text, want string
	}{
		{80, again, again + "\n"},
		{0, again, again + "\n"},
		{40, again, "hint: resume with:\njp query --id jp-c17000000001\n"},
		{40, again + " --role main -w '/home/ada/my work'", "hint: resume with:\njp query --id jp-c17000000001 --role \\\nmain -w '/home/ada/my work'\n"},
		{40, again + ` -w '/home/ada/it'\''s  here' --title 'a'\''b c d e f' "it's so"`,
			"hint: resume with:\njp query --id jp-c17000000001 -w \\\n'/home/ada/it'\\''s  here' --title \\\n'a'\\''b c d e f' \"it's so\"\n"},
		{35, "hint: `jp conversation ls --hidden` lists what there is", "hint:\n`jp conversation ls --hidden`\nlists what there is\n"},
		{20, "hint: `jp conversation ls --hidden`", "hint: `jp\nconversation ls\n--hidden`\n"},
		{40, "hint: it is there: `jp trust --cfg 'a  b.toml'` shows it", "hint: it is there:\n`jp trust --cfg 'a  b.toml'` shows it\n"},
		{20, "jp: a-word-that-is-wider-than-all and on", "jp:\na-word-that-is-wider-than-all\nand on\n"},
		{20, "jp: 意味意味 意味意味 意味", "jp: 意味意味\n意味意味 意味\n"},
		{20, "jp: one ` alone in a long text", "jp: one ` alone in\na long text\n"},
	} {
		if got := (&IO{ErrTTY: true, Width: tt.width}).Message(tt.text); got != tt.want {
			t.Errorf("%d: %q\nwant %q", tt.width, got, tt.want)
		}
	}
	if got := (&IO{Width: 20}).Message(again); got != again+"\n" {
		t.Errorf("in a pipe: %q", got)
	}
}
