# Java with the threads of three collectors, and the interpreter alone.
for options in '-XX:+UseSerialGC' '-XX:+UseG1GC' '-XX:+UseParallelGC -XX:ParallelGCThreads=2' '-Xint'; do
    echo "$options"
    java -Xmx64m $options -cp "$BUILD" Gc
done
