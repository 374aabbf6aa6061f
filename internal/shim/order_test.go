package shim

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/session"
)

// What the processes of a session tell each other arrives whole: every field of every
// message, each byte of a path, each nanosecond.
func TestMessagesArriveWhole(t *testing.T) {
	for _, m := range []any{&order{}, &outcome{}, &holder.Spec{}, &holder.Answer{}, &answer{}} {
		fill(reflect.ValueOf(m).Elem(), 0)
		var b bytes.Buffer
		if err := holder.Encode(&b, m); err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		got := reflect.New(reflect.TypeOf(m).Elem()).Interface()
		if err := holder.Decode(&b, got); err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		same := cmp.Options{
			cmp.Exporter(func(reflect.Type) bool { return true }),
			cmpopts.IgnoreFields(session.Launch{}, "Made"), // the launcher keeps it
		}
		if diff := cmp.Diff(m, got, same); diff != "" {
			t.Errorf("%T changed under way (-sent +arrived):\n%s", m, diff)
		}
	}
}

// fill sets everything in v to something that is not its zero value.
func fill(v reflect.Value, n int) {
	if when, ok := v.Addr().Interface().(*time.Time); ok {
		*when = time.Unix(1<<31, 123456789).UTC()
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n+i+1)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n+i+1)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n+i+1)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n+1)
		fill(value, n+2)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("/a\xff\n" + string(rune('a'+n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(n%100 + 1))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n%100 + 1))
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Func:
	default:
		panic("a message has a " + v.Kind().String())
	}
}
