# OpenJDK's ProcessBuilder under load: hundreds of short processes from several threads, beside a
# collector. jspawnhelper by posix_spawn (vfork inside), the default; vfork by Java itself; fork.
for mechanism in POSIX_SPAWN VFORK FORK; do
    echo "$mechanism"
    java -Xmx96m -XX:+UseG1GC -XX:ParallelGCThreads=2 -Djdk.lang.Process.launchMechanism=$mechanism \
        -cp "$BUILD" Processes 6 "${PROCESSES:-60}"
done
